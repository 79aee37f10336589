import pRetry from "p-retry";
import { CircuitBreaker } from "../circuit-breaker.ts";
import { withDeadline } from "../deadline.ts";
import { Outage } from "../outage.ts";

/** The service's databases. `keys` also holds the record of their changes, their usage and their bans. */
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

/** The database was not asked, because a query has just timed out. */
class PausedError extends Error {
  constructor() {
    super("Not asked, because a query has just timed out.");
  }
}

/** What SQLite or D1 says of a statement that would fail at every attempt. */
const STATEMENT_FAULT =
  /SQLITE_(?:ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG|AUTH|MISUSE|SCHEMA)|D1_(?:TYPE|COLUMN|DUMP|EXEC)\w*|no such (?:table|column)/;

/** The last is how a local D1 reports a lock that it meets after the statement, before it commits. */
const BUSY = /SQLITE_BUSY|SQLITE_LOCKED|database is locked|Failed to get session commit token/;

/**
 * Queries one database, and again after a pause while it is busy. A busy database has done nothing,
 * so writes may be repeated too.
 *
 * Spares those who share it from waiting, one after another, for a database that does not answer:
 * after a query that has timed out, queries fail at once for a second, and then one probes.
 */
export class DatabaseQueries {
  readonly database: DatabaseName;
  /** Ends with a query that succeeds. Whoever answers a request with a failure reports it here. */
  readonly outage: Outage;
  /** Time in milliseconds for all attempts of a query together. */
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
   * @param isRepeatable whether the query may be repeated after any passing error.
   * @throws {DatabaseUnavailableError} if the database does not answer in time or not at all.
   */
  async run<T>(query: () => Promise<T>, { isRepeatable = false } = {}): Promise<T> {
    const ask = () => this.#ask(query);
    const passes = (error: unknown) =>
      isRepeatable
        ? !isStatementFault(error) && !(error instanceof PausedError)
        : BUSY.test(messages(error));
    const attempts = ask().catch((error: unknown) => {
      if (!passes(error)) throw error;
      return repeat(ask, error, { timeoutMs: this.timeoutMs, passes });
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
    // An error is an answer too.
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
