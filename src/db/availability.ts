import pRetry from "p-retry";
import { withDeadline } from "../deadline.ts";

/** The database could not be reached or did not answer in time. */
export class DatabaseUnavailableError extends Error {
  override readonly name = "DatabaseUnavailableError";

  constructor(cause: unknown) {
    super("The database did not answer.", { cause });
  }
}

/** What SQLite or D1 says of a statement that would fail at every attempt. */
const STATEMENT_FAULT =
  /SQLITE_(?:ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG|AUTH|MISUSE|SCHEMA)|D1_(?:TYPE|COLUMN|DUMP|EXEC)\w*|no such (?:table|column)/;

/** The last is how a local D1 reports a lock that it meets after the statement, before it commits. */
const BUSY = /SQLITE_BUSY|SQLITE_LOCKED|database is locked|Failed to get session commit token/;

/**
 * Queries the database, and again after a pause while it is busy. A busy database has done nothing,
 * so writes may be repeated too.
 *
 * @param timeoutMs for all attempts together.
 * @param isRepeatable whether the query may be repeated after any passing error.
 * @throws {DatabaseUnavailableError} if the database does not answer in time or not at all.
 */
export async function queryDatabase<T>(
  timeoutMs: number,
  query: () => Promise<T>,
  { isRepeatable = false } = {},
): Promise<T> {
  const passes = (error: unknown) => (isRepeatable ? !isFinal(error) : BUSY.test(messages(error)));
  const attempts = query().catch((error: unknown) => {
    if (!passes(error)) throw error;
    return repeat(query, error, { timeoutMs, passes });
  });
  try {
    return await withDeadline(attempts, timeoutMs);
  } catch (error) {
    if (isFinal(error)) throw error;
    throw new DatabaseUnavailableError(error);
  }
}

function repeat<T>(
  query: () => Promise<T>,
  error: unknown,
  { timeoutMs, passes }: { timeoutMs: number; passes: (error: unknown) => boolean },
): Promise<T> {
  // The first attempt is the one that has failed.
  return pRetry((attempt) => (attempt === 1 ? Promise.reject(error) : query()), {
    retries: 20,
    minTimeout: 20,
    maxTimeout: 500,
    randomize: true,
    maxRetryTime: timeoutMs,
    shouldRetry: (context) => passes(context.error),
  });
}

/** Whether another attempt would fail too: a wrong statement, or a database that is left alone for now. */
function isFinal(error: unknown): boolean {
  return error instanceof DatabaseUnavailableError || isStatementFault(error);
}

function isStatementFault(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    error instanceof RangeError ||
    STATEMENT_FAULT.test(messages(error))
  );
}

/** The messages of an error and its causes: drizzle wraps what D1 throws. */
function messages(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message} ${messages(error.cause)}`;
}
