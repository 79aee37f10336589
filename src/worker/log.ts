/** An event that an operator may have to look into. Never contains a secret. */
export interface LogEvent {
  readonly event: string;
  /** The `X-Request-Id` of the affected request. */
  readonly requestId?: string;
  readonly error?: unknown;
  readonly [field: string]: unknown;
}

/** An error that says less than its cause. The log has the cause in its place. */
export class CausedError extends Error {}

/** Writes an event to the Worker's log: one line of JSON with the level `warn`. */
export function logEvent({ error, ...fields }: LogEvent): void {
  console.warn(JSON.stringify({ ...fields, ...describe(error) }));
}

function describe(error: unknown): Record<string, unknown> {
  if (error === undefined) return {};
  if (error instanceof CausedError) return describe(error.cause);
  if (!(error instanceof Error)) return { error };
  return { error: withoutValue(error.message), stack: withoutValue(error.stack ?? "") };
}

/** Removes the value that D1 could not bind from its error: it may be a hash. */
function withoutValue(text: string): string {
  return text.replace(/ not supported for value '[^]*?'(?=$|\n {4}at )/, " not supported");
}
