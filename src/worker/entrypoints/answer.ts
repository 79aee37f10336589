import { env } from "cloudflare:workers";
import { en } from "zod/locales";
import * as z from "zod/mini";
import { BINDINGS, type DatabaseName } from "../../schema/databases.ts";
import { d1Database } from "../../store/d1-database.ts";
import type { StoreDatabase } from "../../store/database.ts";
import { Refusal } from "../../store/refusal.ts";
import { DatabaseQueries, DatabaseUnavailableError, logFailure } from "../db/availability.ts";
import { config } from "../isolate.ts";

/** What a call returns if something expected goes wrong. Nothing was changed then. */
export interface Refused {
  readonly ok: false;
  readonly code: Refusal["code"];
  /** Names the field that is wrong, for developers. */
  readonly message: string;
}

/** What a call returns that succeeds; `null` if what it asks for does not exist. */
type Answered<Output> = Output extends null ? null : { readonly ok: true } & Output;

// `zod/mini` has no messages by default.
z.config(en());

export const wholeNumber = (min: number, max: number) =>
  z.int().check(z.minimum(min), z.maximum(max));
/** A time that RFC 3339 can write. */
export const dateInput = z
  .date()
  .check(z.minimum(new Date("0000-01-01")), z.maximum(new Date("9999-12-31T23:59:59.999Z")));
/** How many rows a page may have. */
export const limitInput = z._default(wholeNumber(1, 1_000), 100);

function open(name: DatabaseName): StoreDatabase {
  const queries = new DatabaseQueries(name, config.databaseTimeoutMs);
  return d1Database(env[BINDINGS[name]], (query, options) => queries.run(query, options));
}

export const databases = { orders: open("orders"), keys: open("keys") };

/**
 * Checks the input of a call from another Worker and answers it.
 *
 * @throws an Error without details if something fails. The log has the details.
 */
export async function answer<Input, Output extends object | null>(
  schema: z.ZodMiniType<Input>,
  given: unknown,
  work: (input: Input) => Promise<Output>,
): Promise<Answered<Output> | Refused> {
  const { data, error: fault } = schema.safeParse(given);
  const [issue] = fault?.issues ?? [];
  if (issue !== undefined) return { ok: false, code: "invalid_input", message: describe(issue) };
  try {
    const output = await work(data as Input);
    return (output && { ok: true, ...output }) as never;
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, code: error.code, message: error.message };
    logFailure({ event: "internal_error", error });
    // Not the error itself: its message may contain SQL.
    throw new Error(
      error instanceof DatabaseUnavailableError
        ? "The store cannot reach its database at the moment: call again."
        : "Something went wrong in the store: see its log.",
    );
  }
}

/** Writes an issue as `orders[3].petId: …`. */
function describe({ path, message }: z.core.$ZodIssue): string {
  const steps = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`));
  return steps.length === 0 ? message : `${steps.join("").slice(1)}: ${message}`;
}
