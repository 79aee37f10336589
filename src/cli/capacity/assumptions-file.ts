import { readFile } from "node:fs/promises";
import * as z from "zod";
import { type Assumptions, assumptionsSchema } from "./assumptions.ts";
import { DEFAULT_ASSUMPTIONS } from "./default-assumptions.ts";

/**
 * Reads the assumptions that a file replaces; the others stay as they are.
 *
 * @throws an Error that names what is wrong with the file.
 */
export async function readAssumptions(file: string | undefined): Promise<Assumptions> {
  if (file === undefined) return DEFAULT_ASSUMPTIONS;
  const parsed = assumptionsSchema.safeParse(
    merge(DEFAULT_ASSUMPTIONS, parseJson(await readFile(file, "utf8"), file)),
  );
  if (parsed.success) return parsed.data;
  throw new Error(`${file}: ${z.prettifyError(parsed.error)}`);
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${file} is not JSON: ${String(error)}`, { cause: error });
  }
}

/** Objects are merged field by field; anything else is replaced, and the schema has the last word. */
function merge(before: unknown, after: unknown): unknown {
  if (!isObject(before) || !isObject(after)) return after;
  const merged: Record<string, unknown> = { ...before };
  for (const [name, value] of Object.entries(after)) merged[name] = merge(before[name], value);
  return merged;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
