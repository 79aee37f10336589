import { isLosslessNumber, LosslessNumber, parse } from "lossless-json";
import type { z } from "zod";
import { type OrderRecord, orderRecordSchema } from "../../rules/order.ts";
import { CANONICAL_DECIMAL } from "../../rules/int64.ts";

/**
 * Parses an order from JSON with exact integers (docs/api.md, section Orders). Refuses the integers
 * `1.0`, `1e3` and `-0`, and a field that occurs twice with different values.
 *
 * @throws an Error if the order is not valid. The message names the field.
 */
export function parseOrder(text: string): OrderRecord {
  const value = parseJson(text);
  const parsed = orderRecordSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(describe(value, parsed.error.issues[0]));
}

function parseJson(text: string): unknown {
  try {
    return parse(text, null, (digits) =>
      CANONICAL_DECIMAL.test(digits) ? BigInt(digits) : new LosslessNumber(digits),
    );
  } catch (error) {
    // Any other error is a RangeError, because the recursive parser has overflowed the stack.
    const fault =
      error instanceof SyntaxError ? `not valid JSON: ${error.message}` : "nested too deeply";
    throw new Error(fault, { cause: error });
  }
}

function describe(value: unknown, issue: z.core.$ZodIssue | undefined): string {
  if (issue === undefined) return "not an order";
  const [field] = issue.path;
  if (typeof field !== "string") {
    if (issue.code === "unrecognized_keys") return `unknown field ${JSON.stringify(issue.keys[0])}`;
    return "expected an order, which is a JSON object";
  }
  const fieldValue = (value as Record<string, unknown>)[field];
  if (fieldValue === undefined) return `${field}: missing, ${issue.message}`;
  return `${field}: ${issue.message}, got ${format(fieldValue)}`;
}

function format(value: unknown): string {
  if (typeof value === "bigint") return value.toString();
  if (isLosslessNumber(value)) return shorten(value.toString());
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  return shorten(JSON.stringify(value));
}

function shorten(text: string): string {
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`;
}
