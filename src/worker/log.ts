import { DrizzleQueryError } from "drizzle-orm/errors";

/** Something that an operator may have to look into. Never holds a key or a token. */
export interface LogEvent {
  readonly event: string;
  /** The `X-Request-Id` of the answer. */
  readonly requestId?: string;
  readonly error?: unknown;
  readonly [field: string]: unknown;
}

/** Writes one line of JSON to the Worker's log, at the level of a warning. */
export function logEvent({ error, ...fields }: LogEvent): void {
  console.warn(JSON.stringify({ ...fields, ...describe(error) }));
}

function describe(error: unknown): Record<string, unknown> {
  // drizzle's own message tells the parameters, the hash of a key among them; the cause is D1's.
  if (error instanceof DrizzleQueryError) return describe(error.cause);
  if (error === undefined) return {};
  return error instanceof Error ? { error: error.message, stack: error.stack } : { error };
}
