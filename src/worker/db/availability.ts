import { pause, withDeadline } from "../deadline.ts";
import { CausedError, type LogEvent, logEvent } from "../log.ts";
import { Outage } from "../outage.ts";
import { messages, waitForFile } from "./local-database.ts";
import type { DatabaseName } from "../../schema/databases.ts";

/** Thrown if a database cannot be reached or does not respond in time. */
export class DatabaseUnavailableError extends CausedError {
  readonly outage: Outage;

  constructor({ database, outage }: DatabaseQueries, cause: unknown) {
    super(`The ${database} database did not answer.`, { cause });
    this.outage = outage;
  }
}

/** Logs an error: if a database is unavailable, once for each outage, else as the given event. */
export function logFailure({ event, error, ...details }: LogEvent): void {
  if (error instanceof DatabaseUnavailableError) {
    error.outage.failed({ ...details, error });
  } else logEvent({ event, ...details, error });
}

/** Matches the error messages of SQLite and D1 for a statement that would fail in every attempt. */
const STATEMENT_FAULT =
  /SQLITE_(?:ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG|AUTH|MISUSE|SCHEMA)|D1_(?:TYPE|COLUMN|DUMP|EXEC)\w*|no such (?:table|column)/;

const OVERLOADED = /overloaded/i;

/** How often a repeatable query is sent at most. Each attempt counts towards D1's 1,000 a request. */
export const MAX_ATTEMPTS = 5;

/** The longest pause before the second attempt, in milliseconds. Later pauses are three times longer. */
const PAUSE_MS = 200;
const OVERLOADED_PAUSE_MS = 1_500;

/** Runs queries on one database, each within a timeout. */
export class DatabaseQueries {
  readonly database: DatabaseName;
  /** Outages of this database. Callers of `run` record failures: see `logFailure`. */
  readonly outage: Outage;
  /** The timeout in milliseconds for all attempts of a query together. */
  readonly timeoutMs: number;

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
   * @param isRepeatable true for a query that may run twice and has no client to repeat it, such as
   *   a query for a list that has begun. A temporary error causes up to `MAX_ATTEMPTS` attempts.
   * @throws {DatabaseUnavailableError} if the database does not respond in time.
   * @throws the error of the database if the statement itself is wrong.
   */
  async run<T>(query: () => Promise<T>, { isRead = false, isRepeatable = false } = {}): Promise<T> {
    let hasEnded = false;
    const isOver = () => hasEnded;
    const answer = async () => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await waitForFile(query, { isRead: isRead || isRepeatable, isOver });
        } catch (error) {
          if (!isRepeatable || attempt === MAX_ATTEMPTS || isStatementFault(error)) throw error;
          const longestMs = OVERLOADED.test(messages(error)) ? OVERLOADED_PAUSE_MS : PAUSE_MS;
          await pause(longestMs * 3 ** (attempt - 1) * (0.5 + Math.random() / 2));
          if (hasEnded) throw error;
        }
      }
    };
    try {
      const result = await withDeadline(answer(), this.timeoutMs);
      this.outage.answered();
      return result;
    } catch (error) {
      if (isStatementFault(error)) throw error;
      throw this.unavailable(error);
    } finally {
      hasEnded = true;
    }
  }

  /** Creates the error of a query that this database did not answer. */
  readonly unavailable = (cause: unknown) => new DatabaseUnavailableError(this, cause);
}

function isStatementFault(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    error instanceof RangeError ||
    STATEMENT_FAULT.test(messages(error))
  );
}
