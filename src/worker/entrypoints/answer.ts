import * as z from "zod";
import { parseConfig } from "../../rules/config.ts";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
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

const INT64_EXPECTED = `expected a bigint from ${INT64_MIN} to ${INT64_MAX}`;
export const int64Input = z
  .bigint(INT64_EXPECTED)
  .min(INT64_MIN, INT64_EXPECTED)
  .max(INT64_MAX, INT64_EXPECTED);

/** How many rows a page may have. */
export const limitInput = z.int().min(1).max(1_000);

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
  schema: z.ZodType<Input>,
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
  return `${path.join("").replace(/^\./, "")}: ${issue?.message}`;
}
