import pRetry from "p-retry";
import { CircuitBreaker } from "../circuit-breaker.ts";
import { withDeadline } from "../deadline.ts";
import { Outage } from "../outage.ts";

/**
 * The two databases of the service. `keys` contains the API keys, the audit trail, bans and usage.
 */
export type DatabaseName = "orders" | "keys";

/** Thrown if a database cannot be reached or does not respond in time. */
export class DatabaseUnavailableError extends Error {
  override readonly name = "DatabaseUnavailableError";
  readonly database: DatabaseName;

  constructor(database: DatabaseName, cause: unknown) {
    super(`The ${database} database did not answer.`, { cause });
    this.database = database;
  }
}

/** Thrown instead of sending a query if an earlier query has just timed out. */
class PausedError extends Error {
  constructor() {
    super("The query was not sent, because an earlier query has just timed out.");
  }
}

/** Matches the error messages of SQLite and D1 for a statement that would fail in every attempt. */
const STATEMENT_FAULT =
  /SQLITE_(?:ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG|AUTH|MISUSE|SCHEMA)|D1_(?:TYPE|COLUMN|DUMP|EXEC)\w*|no such (?:table|column)/;

/**
 * Matches the error messages of a busy database. A local D1 reports `Failed to get session commit
 * token` if the database is locked between a statement and its commit.
 */
const BUSY = /SQLITE_BUSY|SQLITE_LOCKED|database is locked|Failed to get session commit token/;

/**
 * Matches an error of D1 that hides its cause, which may be a locked database. The statement may
 * have been executed, so only reads are retried after it, and only a few times: during an outage,
 * requests should fail soon.
 */
const INTERNAL = /internal error; reference/;
const INTERNAL_ATTEMPTS = 5;

/**
 * Runs queries on one database, and retries a query while the database is busy. Writes are retried
 * as well, because a busy database has not executed the statement.
 *
 * After a query has timed out, all queries fail immediately for one second. Then one query is sent
 * as a probe. The drawback: a single slow query makes all queries of the isolate fail for one
 * second.
 */
export class DatabaseQueries {
  readonly database: DatabaseName;
  /**
   * Tracks and logs outages of this database. This class records successes. The caller records
   * failures, because only the caller knows the request id for the log.
   */
  readonly outage: Outage;
  /** The timeout in milliseconds for all attempts of a query together. */
  readonly timeoutMs: number;
  readonly #breaker: CircuitBreaker;

  constructor(database: DatabaseName, timeoutMs: number) {
    this.database = database;
    this.outage = new Outage({
      began: `${database}_database_unavailable`,
      ended: `${database}_database_available`,
    });
    this.timeoutMs = timeoutMs;
    this.#breaker = new CircuitBreaker({ size: 1, probeMs: timeoutMs });
  }

  /**
   * Runs a query. Retries the query while the database is busy.
   *
   * @param isRead true for a query that only reads, which is then also retried after an internal
   *   error.
   * @param isRepeatable true if running the query twice does no harm. The query is then retried
   *   after any temporary error.
   * @throws {DatabaseUnavailableError} if the database does not respond in time.
   * @throws the error of the database if the statement itself is wrong.
   */
  async run<T>(query: () => Promise<T>, { isRead = false, isRepeatable = false } = {}): Promise<T> {
    let isUnanswered = false;
    const ask = async () => {
      if (!this.#breaker.allows(this.database, Date.now())) throw new PausedError();
      isUnanswered = true;
      try {
        return await query();
      } finally {
        isUnanswered = false;
        // A query that rejects also counts as a success: the database has responded.
        this.#breaker.succeeded(this.database);
      }
    };
    const isTemporary = (error: unknown, attempt: number) =>
      isRepeatable
        ? !isStatementFault(error) && !(error instanceof PausedError)
        : BUSY.test(messages(error)) ||
          (isRead && attempt < INTERNAL_ATTEMPTS && INTERNAL.test(messages(error)));
    const attempts = ask().catch((error: unknown) => {
      if (!isTemporary(error, 1)) throw error;
      return repeat(ask, error, { timeoutMs: this.timeoutMs, isTemporary });
    });
    try {
      const answer = await withDeadline(attempts, this.timeoutMs);
      this.outage.answered();
      return answer;
    } catch (error) {
      if (isUnanswered) this.#breaker.failed(this.database, Date.now());
      if (isStatementFault(error)) throw error;
      throw this.unavailable(error);
    }
  }

  /** Creates the error of a query that this database did not answer. */
  readonly unavailable = (cause: unknown) => new DatabaseUnavailableError(this.database, cause);
}

function repeat<T>(
  query: () => Promise<T>,
  error: unknown,
  {
    timeoutMs,
    isTemporary,
  }: {
    timeoutMs: number;
    isTemporary: (error: unknown, attempt: number) => boolean;
  },
): Promise<T> {
  // The query has already failed once with `error`. Attempt 1 of pRetry only rethrows this error,
  // so that pRetry waits before attempt 2.
  return pRetry((attempt) => (attempt === 1 ? Promise.reject(error) : query()), {
    retries: 20,
    minTimeout: 20,
    maxTimeout: 500,
    randomize: true,
    maxRetryTime: timeoutMs,
    shouldRetry: (context) => isTemporary(context.error, context.attemptNumber),
  });
}

function isStatementFault(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    error instanceof RangeError ||
    STATEMENT_FAULT.test(messages(error))
  );
}

/** Returns the messages of an error and its causes: D1 wraps the errors of SQLite. */
function messages(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message} ${messages(error.cause)}`;
}
