import { CircuitBreaker } from "../circuit-breaker.ts";
import { pause, withDeadline } from "../deadline.ts";
import { Outage } from "../outage.ts";

/** The databases of the service. `keys` contains the API keys, the audit trail, bans and usage. */
export type DatabaseName = "orders" | "keys";

/** Thrown if a database cannot be reached or does not respond in time. */
export class DatabaseUnavailableError extends Error {
  readonly database: DatabaseName;

  constructor(database: DatabaseName, cause: unknown) {
    super(`The ${database} database did not answer.`, { cause });
    this.database = database;
  }
}

/** Thrown for a query that is not sent, because an earlier query has just timed out. */
class PausedError extends Error {}

/** Matches the error messages of SQLite and D1 for a statement that would fail in every attempt. */
const STATEMENT_FAULT =
  /SQLITE_(?:ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG|AUTH|MISUSE|SCHEMA)|D1_(?:TYPE|COLUMN|DUMP|EXEC)\w*|no such (?:table|column)/;

/** Milliseconds to wait for a query that probes a failed database. Then another query may probe. */
const PROBE_MS = 1_000;

const LONGEST_PAUSE_MS = 500;

/**
 * Matches the errors of a local D1 while a command locks its file. A statement that fails with such
 * an error has had no effect, so it can be repeated.
 */
const LOCKED = /SQLITE_BUSY|SQLITE_LOCKED|database is locked|Failed to get session commit token/;

/**
 * An error by which a local D1 may hide that its file is locked. The statement may have been
 * executed, so only reads are repeated. The number of attempts is small, because D1 on Cloudflare
 * reports the same error in an outage, and requests should then fail soon.
 */
const HIDDEN = /internal error; reference/;
const HIDDEN_ATTEMPTS = 5;

/**
 * Runs queries on one database, and repeats them while a command has locked a local database.
 *
 * If a query times out and the database has answered no other query meanwhile, all queries fail
 * immediately for one second. After that, one query a second is sent as a probe, until the database
 * answers. A probe that never ends, because its client disconnected, does not block later probes.
 */
export class DatabaseQueries {
  readonly database: DatabaseName;
  /** Outages of this database. Callers of `run` record failures with the id of a request or key. */
  readonly outage: Outage;
  /** The timeout in milliseconds for all attempts of a query together. */
  readonly timeoutMs: number;
  readonly #breaker = new CircuitBreaker({ size: 1, probeMs: PROBE_MS });
  /** The number of answers of the database, errors included. */
  #answers = 0;

  constructor(database: DatabaseName, timeoutMs: number) {
    this.database = database;
    this.outage = new Outage({
      began: `${database}_database_unavailable`,
      ended: `${database}_database_available`,
    });
    this.timeoutMs = timeoutMs;
  }

  /**
   * @param isRead true for a query that only reads.
   * @param isRepeatable true for a query that may run twice; any temporary error causes a retry.
   * @throws {DatabaseUnavailableError} if the database does not respond in time.
   * @throws the error of the database if the statement itself is wrong.
   */
  async run<T>(query: () => Promise<T>, { isRead = false, isRepeatable = false } = {}): Promise<T> {
    let isOver = false;
    let isUnanswered = false;
    let answersBefore = 0;
    const ask = async () => {
      if (!this.#breaker.allows(this.database, Date.now())) {
        throw new PausedError(
          "The query was not sent, because an earlier query has just timed out.",
        );
      }
      isUnanswered = true;
      answersBefore = this.#answers;
      try {
        return await query();
      } finally {
        isUnanswered = false;
        // A query that rejects also counts as a success: the database has responded.
        this.#answers += 1;
        this.#breaker.succeeded(this.database);
      }
    };
    const isTemporary = (error: unknown, attempt: number) => {
      if (isRepeatable) return !isStatementFault(error) && !(error instanceof PausedError);
      const isHidden = isRead && attempt < HIDDEN_ATTEMPTS && HIDDEN.test(messages(error));
      return isHidden || LOCKED.test(messages(error));
    };
    const answer = async () => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await ask();
        } catch (error) {
          if (!isTemporary(error, attempt)) throw error;
          await pause(Math.min(LONGEST_PAUSE_MS, 20 * 2 ** attempt) * Math.random());
          if (isOver) throw error;
        }
      }
    };
    try {
      const result = await withDeadline(answer(), this.timeoutMs);
      this.outage.answered();
      return result;
    } catch (error) {
      isOver = true;
      if (isUnanswered && this.#answers === answersBefore) {
        this.#breaker.failed(this.database, Date.now());
      }
      if (isStatementFault(error)) throw error;
      throw this.unavailable(error);
    }
  }

  /** Creates the error of a query that this database did not answer. */
  readonly unavailable = (cause: unknown) => new DatabaseUnavailableError(this.database, cause);
}

function isStatementFault(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    error instanceof RangeError ||
    STATEMENT_FAULT.test(messages(error))
  );
}

/** Returns the messages of an error and its causes, because D1 wraps the errors of SQLite. */
function messages(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message} ${messages(error.cause)}`;
}
