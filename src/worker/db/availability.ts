import pRetry from "p-retry";
import { CircuitBreaker } from "../circuit-breaker.ts";
import { withDeadline } from "../deadline.ts";
import { Outage } from "../outage.ts";

/** The databases of the service. `keys` also has the audit trail, bans and usage. */
export type DatabaseName = "orders" | "keys";

/** A database could not be reached or did not answer in time. */
export class DatabaseUnavailableError extends Error {
  override readonly name = "DatabaseUnavailableError";
  readonly database: DatabaseName;

  constructor(database: DatabaseName, cause: unknown) {
    super(`The ${database} database did not answer.`, { cause });
    this.database = database;
  }
}

/** The query was not sent, because an earlier query has just timed out. */
class PausedError extends Error {
  constructor() {
    super("The query was not sent, because an earlier query has just timed out.");
  }
}

/** Error messages of SQLite and D1 for a statement that would fail at every attempt. */
const STATEMENT_FAULT =
  /SQLITE_(?:ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG|AUTH|MISUSE|SCHEMA)|D1_(?:TYPE|COLUMN|DUMP|EXEC)\w*|no such (?:table|column)/;

/** The last message is from a local D1 that finds a lock between the statement and its commit. */
const BUSY = /SQLITE_BUSY|SQLITE_LOCKED|database is locked|Failed to get session commit token/;

/**
 * Queries one database, and repeats a query while the database is busy. A busy database has done
 * nothing, so writes are repeated as well.
 *
 * After a query that has timed out, queries fail at once for a second, and then one query tries again.
 * The trade: a single slow query fails all queries of the isolate for a second.
 */
export class DatabaseQueries {
  readonly database: DatabaseName;
  /** Ends when a query succeeds. The caller reports failures, because it knows the request. */
  readonly outage: Outage;
  /** Milliseconds for all attempts of a query together. */
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
   * @param isRepeatable true if the query may be repeated after any temporary error.
   * @throws {DatabaseUnavailableError} if the database does not answer in time.
   * @throws the error of the database if the statement itself is at fault.
   */
  async run<T>(query: () => Promise<T>, { isRepeatable = false } = {}): Promise<T> {
    const ask = () => this.#ask(query);
    const isTemporary = (error: unknown) =>
      isRepeatable
        ? !isStatementFault(error) && !(error instanceof PausedError)
        : BUSY.test(messages(error));
    const attempts = ask().catch((error: unknown) => {
      if (!isTemporary(error)) throw error;
      return repeat(ask, error, { timeoutMs: this.timeoutMs, isTemporary });
    });
    try {
      const answer = await withDeadline(attempts, this.timeoutMs);
      this.outage.answered();
      return answer;
    } catch (error) {
      if (isStatementFault(error)) throw error;
      throw new DatabaseUnavailableError(this.database, error);
    }
  }

  async #ask<T>(query: () => Promise<T>): Promise<T> {
    if (!this.#breaker.allows(this.database, Date.now())) throw new PausedError();
    const answer = query();
    // An error is an answer, too.
    const answered = answer.then(
      () => this.#breaker.succeeded(this.database),
      () => this.#breaker.succeeded(this.database),
    );
    await withDeadline(answered, this.timeoutMs).catch((error: unknown) => {
      this.#breaker.failed(this.database, Date.now());
      throw error;
    });
    return answer;
  }
}

function repeat<T>(
  query: () => Promise<T>,
  error: unknown,
  { timeoutMs, isTemporary }: { timeoutMs: number; isTemporary: (error: unknown) => boolean },
): Promise<T> {
  // pRetry counts the attempt that has already failed as the first one.
  return pRetry((attempt) => (attempt === 1 ? Promise.reject(error) : query()), {
    retries: 20,
    minTimeout: 20,
    maxTimeout: 500,
    randomize: true,
    maxRetryTime: timeoutMs,
    shouldRetry: (context) => isTemporary(context.error),
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
