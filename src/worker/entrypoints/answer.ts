import * as z from "zod/mini";
import { parseConfig } from "../../rules/config.ts";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../../schema/databases.ts";
import { d1Database } from "../../store/d1-database.ts";
import type { StoreDatabase } from "../../store/database.ts";
import { Refusal } from "../../store/refusal.ts";
import { DatabaseQueries, DatabaseUnavailableError } from "../db/availability.ts";
import { logEvent } from "../log.ts";

/** What a call returns if something expected goes wrong. Nothing was changed then. */
export interface Refused {
  readonly ok: false;
  readonly code: Refusal["code"] | "invalid_input";
  /** Names the field that is wrong, for developers. */
  readonly message: string;
}

// `zod/mini` has no messages of its own, so each check states one. Classic zod would double the bundle.

/** A whole number in a range. */
export function wholeNumber(min: number, max: number) {
  const expected = `expected a whole number from ${min} to ${max}`;
  return z.int(expected).check(z.minimum(min, expected), z.maximum(max, expected));
}

/** A bigint in a range. */
export function bigInteger(min: bigint, max: bigint, expected = `a bigint from ${min} to ${max}`) {
  const message = `expected ${expected}`;
  return z.bigint(message).check(z.minimum(min, message), z.maximum(max, message));
}

/** An object with these fields and no others. */
export function closedObject<Shape extends z.core.$ZodShape>(shape: Shape) {
  return z.strictObject(shape, {
    error: ({ code, keys }) =>
      code === "unrecognized_keys" ? `unknown field ${keys.join(", ")}` : "expected an object",
  });
}

/** How many rows a page may have. */
export const limitInput = z._default(wholeNumber(1, 1_000), 100);

let queries: Record<DatabaseName, DatabaseQueries> | undefined;

/** Returns a database of the store. Its queries have the time limit of the configuration. */
export function databaseOf(env: Cloudflare.Env, name: DatabaseName): StoreDatabase {
  queries ??= Object.fromEntries(
    DATABASE_NAMES.map((each) => {
      return [each, new DatabaseQueries(each, parseConfig(env).databaseTimeoutMs)];
    }),
  ) as Record<DatabaseName, DatabaseQueries>;
  const own = queries[name];
  return d1Database(env[BINDINGS[name]], (query, options) => own.run(query, options));
}

/**
 * Checks the input of a call from another Worker and answers it.
 *
 * @throws an Error without details if something fails. The log has the details.
 */
export async function answer<Input, Output>(
  schema: z.ZodMiniType<Input>,
  given: unknown,
  work: (input: Input) => Promise<Output>,
): Promise<Output | Refused> {
  const { data, error: fault } = schema.safeParse(given);
  if (fault !== undefined) {
    return { ok: false, code: "invalid_input", message: describe(fault.issues[0]) };
  }
  try {
    return await work(data as Input);
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, code: error.code, message: error.message };
    const isDatabase = error instanceof DatabaseUnavailableError;
    if (isDatabase) queries?.[error.database].outage.failed({ error: error.cause });
    else logEvent({ event: "internal_error", error });
    // Not the error itself: its message may contain SQL.
    throw new Error(
      isDatabase
        ? "The store cannot reach its database at the moment: call again."
        : "Something went wrong in the store: see its log.",
    );
  }
}

/** Writes an issue as `orders[3].petId: expected …`. */
function describe(issue: z.core.$ZodIssue | undefined): string {
  const path = (issue?.path ?? []).map((part) =>
    typeof part === "number" ? `[${part}]` : `.${String(part)}`,
  );
  return [path.join("").replace(/^\./, ""), issue?.message].filter(Boolean).join(": ");
}
