import { isWithin, withDeadline } from "../deadline.ts";
import { Outage } from "../outage.ts";
import type { DatabaseQueries } from "./availability.ts";
import type { StatementSource } from "./statement.ts";

/** The primary database is queried too if the replica has not answered within this time. */
const REPLICA_MS = 1_000;

/** Thrown by a query of a replica that is older than the query needs. */
export class StaleReplicaError extends Error {}

/**
 * Reads from the primary database or the nearest replica. If the replica fails, is slow or too old,
 * the primary is queried too, and the first usable result counts. A replica that fails or is slow is
 * then skipped for a second.
 */
export class NearestReads {
  /** Whether reads may come from the nearest replica. */
  readonly isNearest: boolean;
  /** The time in milliseconds within which every read settles. */
  readonly timeoutMs: number;
  readonly queries: DatabaseQueries;
  readonly #outage = new Outage({ began: "list_replica_failed", ended: "list_replica_recovered" });
  #failedMs = -Infinity;

  constructor(queries: DatabaseQueries, isNearest: boolean) {
    this.queries = queries;
    this.isNearest = isNearest;
    this.timeoutMs = queries.timeoutMs + (isNearest ? REPLICA_MS : 0);
  }

  /** @param query receives `database` itself if it must read from the primary database. */
  async run<T>(
    database: D1Database,
    mayReadReplica: boolean,
    query: (source: StatementSource) => Promise<T>,
  ): Promise<T> {
    const primary = () => this.queries.run(() => query(database), { isRepeatable: true });
    const isSkipped = isWithin(REPLICA_MS, this.#failedMs);
    if (!this.isNearest || !mayReadReplica || isSkipped) return primary();
    const replica = query(database.withSession("first-unconstrained"));
    try {
      const result = await withDeadline(replica, REPLICA_MS);
      this.#outage.answered();
      return result;
    } catch (error) {
      if (!(error instanceof StaleReplicaError)) {
        this.#failedMs = Date.now();
        this.#outage.failed({ error });
      }
    }
    // A slow replica may still be faster than the primary.
    const late = withDeadline(replica, this.queries.timeoutMs);
    return Promise.any([primary(), late]).catch((error: AggregateError) => {
      throw error.errors[0];
    });
  }
}
