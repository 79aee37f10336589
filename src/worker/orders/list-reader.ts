import { CircuitBreaker } from "../circuit-breaker.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { withDeadline } from "../deadline.ts";
import { Outage } from "../outage.ts";
import type { StatementSource } from "../db/statement.ts";

/** A query goes to the primary database if the replica has not answered within this time. */
const REPLICA_TIMEOUT_MS = 1_000;

const REPLICA = "replica";

/**
 * Runs the queries of lists on the primary database or the nearest replica. If the replica fails or
 * its result is too old, the primary is queried. A failed replica is then skipped for a second.
 */
export class ListReader {
  readonly isNearest: boolean;
  /** The time in milliseconds within which every read settles. */
  readonly timeoutMs: number;
  readonly #queries: DatabaseQueries;
  readonly #breaker = new CircuitBreaker({ size: 1, probeMs: REPLICA_TIMEOUT_MS });
  readonly #outage = new Outage({ began: "list_replica_failed", ended: "list_replica_recovered" });

  constructor(queries: DatabaseQueries, isNearest: boolean) {
    this.#queries = queries;
    this.isNearest = isNearest;
    this.timeoutMs = queries.timeoutMs + (isNearest ? REPLICA_TIMEOUT_MS : 0);
  }

  /**
   * @param query receives `database` itself if it must read from the primary database.
   * @param isUsable returns whether the replica's result is recent and complete enough.
   * @throws {DatabaseUnavailableError} if the primary database does not respond.
   */
  async read<T>(
    database: D1Database,
    query: (source: StatementSource) => Promise<T>,
    isUsable: (result: T) => boolean,
    { isPrimaryOnly = false, isRepeatable = false } = {},
  ): Promise<T> {
    if (this.isNearest && !isPrimaryOnly && this.#breaker.allows(REPLICA, Date.now())) {
      try {
        const replica = database.withSession("first-unconstrained");
        const result = await withDeadline(query(replica), REPLICA_TIMEOUT_MS);
        this.#breaker.succeeded(REPLICA);
        this.#outage.answered();
        if (isUsable(result)) return result;
      } catch (error) {
        this.#breaker.failed(REPLICA, Date.now());
        this.#outage.failed({ error });
      }
    }
    return this.#queries.run(() => query(database), { isRead: true, isRepeatable });
  }
}
