import { type SQL, sql, type SQLWrapper } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { exact } from "../../schema/int64.ts";
import {
  ORDER_FIELDS,
  orderChanges,
  orderList,
  orderListLeases,
  orders,
  orderSegments,
} from "../../schema/orders.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { db, Statement, type StatementSource } from "../db/statement.ts";
import { withDeadline } from "../deadline.ts";
import { Outage } from "../outage.ts";
import { joined, OrderWriter, valuesOf } from "../../schema/order-json.ts";

/** A range of ids and its orders. Segments of the same version always contain the same orders. */
export interface Segment {
  /** The smallest and the largest id that belong to the segment: int64s in decimal. */
  readonly firstId: string;
  readonly lastId: string;
  readonly version: string;
  /** An upper bound of the length of its JSON, which a trigger keeps below `SEGMENT_BYTES`. */
  readonly bytes: number;
}

/** A version of the list. Triggers in the database change it with every change of an order. */
interface ListVersion {
  readonly version: string;
  /** The sequence number of the last change (see `order_changes`). */
  readonly sequence: number;
}

/** All segments of the list at one moment, in ascending order of ids. */
export interface Manifest extends ListVersion {
  readonly segments: readonly Segment[];
}

/** The JSON of each segment by the segment's version: its orders, each after a comma. */
export type SegmentJson = ReadonlyMap<string, Uint8Array>;

export interface Snapshot extends ListVersion {
  readonly servedBy: { readonly region: string | null; readonly isPrimary: boolean };
  /** `null` if no request needed the manifest, or the list has one of the known versions. */
  readonly manifest: Manifest | null;
  /** The segments that were not in memory; only the first one if they exceed `maxMissingBytes`. */
  readonly json: SegmentJson;
}

interface SnapshotNeeds {
  /** Whether a request needs the manifest, unless the list has one of `knownVersions`. */
  readonly needsManifest: boolean;
  readonly knownVersions: readonly string[];
  readonly segmentVersions: readonly string[];
  /** If memory lacks more bytes than this, the query reads only the first missing segment. */
  readonly maxMissingBytes: number;
  readonly mayReadReplica: boolean;
}

const SMALLEST = sql.raw(String(INT64_MIN));
const LARGEST = sql.raw(String(INT64_MAX));

const known = sql.placeholder("known");
const sequence = sql.placeholder("sequence");

const segment = alias(orderSegments, "segment");
const later = alias(orderSegments, "later");
const former = alias(orderChanges, "former");

/** True for a segment whose version is not in memory. SQLite reads the versions in memory once. */
function isMissing({ version }: { readonly version: SQLWrapper }): SQL {
  return sql`${version} NOT IN (SELECT value FROM json_each(${sql.placeholder("inMemory")}))`;
}

/** A SQL subquery for the orders of the segment in the outer query's current row `segment`. */
const segmentText = () =>
  joined(sql`
    SELECT ${valuesOf(orders)} AS order_values FROM ${orders}
    WHERE ${orders.id} BETWEEN ${segment.firstId} AND ifnull((
      SELECT min(${later.firstId}) - 1 FROM ${orderSegments} AS later
      WHERE ${later.firstId} > ${segment.firstId}
    ), ${LARGEST})
    ORDER BY ${orders.id}`);

/**
 * A single statement, so the version, the manifest and the orders are consistent. If no request
 * needs the manifest, the join compares `first_id` with `NULL`: the statement reads only one row.
 */
const SNAPSHOT = Statement.ofSql<SnapshotRow>(
  () => sql`
  SELECT ${orderList.version} AS list_version, ${orderList.sequence} AS sequence,
    ${exact(segment.firstId)} AS first_id, ${segment.version} AS version, ${segment.bytes} AS bytes,
    iif(
      ${segment.firstId} IS NOT NULL AND ${isMissing(segment)} AND (
        (SELECT sum(${orderSegments.bytes}) FROM ${orderSegments} WHERE ${isMissing(orderSegments)})
          <= ${sql.placeholder("maxMissingBytes")}
        OR ${segment.firstId} = (
          SELECT min(${orderSegments.firstId}) FROM ${orderSegments} WHERE ${isMissing(orderSegments)})
      ), ${segmentText()}, NULL
    ) AS text
  FROM ${orderList} LEFT JOIN ${orderSegments} AS segment ON ${segment.firstId} >= iif(
    ${known} IS NULL OR instr(${known}, '"' || ${orderList.version} || '"') > 0, NULL, ${SMALLEST})
  WHERE ${orderList.id} = 1 ORDER BY ${segment.firstId}`,
);

/**
 * Reads the orders of the segments `wanted`, as they were after the change with the sequence number
 * `sequence` and the list version `version`. Reads nothing if the database does not know this
 * change: on an older replica or after a restore, a segment of the same version can have a smaller
 * range.
 *
 * - A segment that still has its version is read from `orders` alone.
 * - For any other segment, orders that have changed since are read from `order_changes`, in their
 *   state before the first change. `text` is `NULL` after a bulk change, which keeps no states.
 *
 * A segment's range of ids comes from the manifest: segments may have been split or joined since.
 * `former` keeps only the changes in the range of all wanted segments, because many orders can have
 * changed since.
 */
const SEGMENTS = Statement.ofSql<TextRow>(
  () => sql`
  WITH wanted AS (
    SELECT value ->> 0 AS version, CAST(value ->> 1 AS INTEGER) AS first_id,
      CAST(value ->> 2 AS INTEGER) AS last_id
    FROM json_each(${sql.placeholder("segments")})
  ), former AS MATERIALIZED (
    SELECT min(sequence), id, was_listed, ${sql.raw(ORDER_FIELDS.join())}
    FROM ${orderChanges} WHERE ${orderChanges.sequence} > ${sequence} AND (
      ${orderChanges.id} IS NULL OR ${orderChanges.id}
        BETWEEN (SELECT min(first_id) FROM wanted) AND (SELECT max(last_id) FROM wanted)
    ) GROUP BY id
  )
  SELECT wanted.version AS version, CASE
    WHEN EXISTS (
      SELECT 1 FROM ${orderSegments} AS segment
      WHERE ${segment.firstId} = wanted.first_id AND ${segment.version} = wanted.version
    ) THEN ${joined(sql`
      SELECT ${valuesOf(orders)} AS order_values FROM ${orders}
      WHERE ${orders.id} BETWEEN wanted.first_id AND wanted.last_id ORDER BY ${orders.id}`)}
    WHEN NOT EXISTS (SELECT 1 FROM former WHERE ${former.id} IS NULL)
    THEN ${joined(sql`
      SELECT ${orders.id} AS id, ${valuesOf(orders)} AS order_values FROM ${orders}
      WHERE ${orders.id} BETWEEN wanted.first_id AND wanted.last_id
        AND ${orders.id} NOT IN (SELECT ${former.id} FROM former)
      UNION ALL
      SELECT ${former.id}, ${valuesOf(former)} FROM former
      WHERE ${former.id} BETWEEN wanted.first_id AND wanted.last_id AND ${former.wasListed}
      ORDER BY 1`)}
  END AS text
  FROM wanted WHERE EXISTS (
    SELECT 1 FROM ${orderChanges} WHERE ${orderChanges.sequence} = ${sequence}
      AND ${orderChanges.version} = ${sql.placeholder("version")})`,
);

/** Lets housekeeping keep the former states since a change, for lists that are read for hours. */
const LEASE = Statement.of(() => {
  const renewedAt = sql`CAST(unixepoch('subsec') * 1000 AS INTEGER)`;
  return db
    .insert(orderListLeases)
    .values({ sequence, renewedAt })
    .onConflictDoUpdate({ target: orderListLeases.sequence, set: { renewedAt } });
});

interface TextRow {
  readonly version: string;
  readonly text: string | null;
}

type SnapshotRow = { readonly list_version: string; readonly sequence: number } & (
  | (TextRow & { readonly first_id: string; readonly bytes: number })
  | { readonly first_id: null }
);

/** The primary database is queried too if the replica has not answered within this time. */
const REPLICA_MS = 1_000;

class StaleReplicaError extends Error {}

/**
 * The database that lists are read from: the primary one or the nearest replica. If the replica
 * fails, is slow or too old, the primary is queried too, and the first usable result counts. A
 * replica that fails or is slow is then skipped for a second.
 */
export class ListDatabase {
  readonly isNearest: boolean;
  /** The time in milliseconds within which every read settles. */
  readonly timeoutMs: number;
  readonly #queries: DatabaseQueries;
  readonly #outage = new Outage({ began: "list_replica_failed", ended: "list_replica_recovered" });
  #failedMs = -Infinity;

  constructor(queries: DatabaseQueries, isNearest: boolean) {
    this.#queries = queries;
    this.isNearest = isNearest;
    this.timeoutMs = queries.timeoutMs + (isNearest ? REPLICA_MS : 0);
  }

  /**
   * Reads the list's version and, if a request needs it, the manifest and segments not in memory.
   *
   * @throws {DatabaseUnavailableError} if the primary database does not respond.
   */
  snapshot(database: D1Database, needs: SnapshotNeeds): Promise<Snapshot> {
    return this.#run(database, {
      isFromReplica: this.isNearest && needs.mayReadReplica,
      query: async (source) => {
        const found = await readSnapshot(source, needs);
        // Without a session, D1 always queries the primary, whether or not its result says so.
        const isPrimary = source === database || found.servedBy.isPrimary;
        return { ...found, servedBy: { ...found.servedBy, isPrimary } };
      },
      isUsable: () => true,
    });
  }

  /**
   * Returns a function that reads segments of one list (see `readSegments`). After a replica has
   * once been of no use, the list is read from the primary: D1 allows a request 1,000 queries.
   */
  segmentsOf(database: D1Database, manifest: Manifest) {
    let isFromReplica = this.isNearest;
    return (group: readonly Segment[]): Promise<SegmentJson> =>
      this.#run(database, {
        isFromReplica,
        query: (source) => readSegments(source, manifest, group),
        // A replica that is older than the manifest lacks segments.
        isUsable: ({ size }) => size === group.length,
        onUseless: () => void (isFromReplica = false),
      });
  }

  /** Keeps the former states that a list is read from for a day more. Logs a failure. */
  async renewLease(database: D1Database, manifest: Manifest): Promise<void> {
    const renewal = () => LEASE.bind(database, { sequence: manifest.sequence }).run();
    await this.#queries
      .run(renewal, { isRepeatable: true })
      .catch((error: unknown) => this.#queries.outage.failed({ error }));
  }

  async #run<T>(
    database: D1Database,
    options: {
      readonly isFromReplica: boolean;
      /** Receives `database` itself if it must read from the primary database. */
      readonly query: (source: StatementSource) => Promise<T>;
      /** Returns whether the replica's result is recent and complete enough. */
      readonly isUsable: (result: T) => boolean;
      readonly onUseless?: () => void;
    },
  ): Promise<T> {
    const { query } = options;
    const primary = () => this.#queries.run(() => query(database), { isRepeatable: true });
    const sinceMs = Date.now() - this.#failedMs;
    if (!options.isFromReplica || (sinceMs >= 0 && sinceMs < REPLICA_MS)) return primary();
    const replica = query(database.withSession("first-unconstrained")).then((result) => {
      this.#outage.answered();
      if (options.isUsable(result)) return result;
      throw new StaleReplicaError("The replica is older than the list.");
    });
    try {
      return await withDeadline(replica, REPLICA_MS);
    } catch (error) {
      options.onUseless?.();
      if (!(error instanceof StaleReplicaError)) {
        this.#failedMs = Date.now();
        this.#outage.failed({ error });
      }
    }
    // A slow replica may still be faster than the primary.
    const late = withDeadline(replica, this.#queries.timeoutMs);
    return Promise.any([primary(), late]).catch((error: AggregateError) => {
      throw error.errors[0];
    });
  }
}

/** Reads the list's version and, if a request needs it, the manifest and segments not in memory. */
async function readSnapshot(
  source: StatementSource,
  { needsManifest, knownVersions, segmentVersions, maxMissingBytes }: SnapshotNeeds,
): Promise<Snapshot> {
  const statement = SNAPSHOT.bind(source, {
    known: needsManifest ? JSON.stringify(knownVersions) : null,
    inMemory: JSON.stringify(segmentVersions),
    maxMissingBytes,
  });
  const { results: rows, meta } = await statement.all<SnapshotRow>();
  const [list] = rows;
  if (list === undefined) throw new Error("The database has no version of the list.");
  const { list_version: version, sequence: last } = list;
  const servedBy = {
    region: meta.served_by_region ?? null,
    isPrimary: meta.served_by_primary ?? false,
  };
  const snapshot = { version, sequence: last, servedBy };
  if (list.first_id === null) return { ...snapshot, manifest: null, json: new Map() };
  const segmentRows = rows.filter((row) => row.first_id !== null);
  const segments = segmentRows.map((row, index) => {
    const nextId = segmentRows[index + 1]?.first_id;
    const lastId = String(nextId === undefined ? INT64_MAX : BigInt(nextId) - 1n);
    return { firstId: row.first_id, lastId, version: row.version, bytes: row.bytes };
  });
  const manifest = { version, sequence: last, segments };
  return { ...snapshot, manifest, json: jsonIn(segmentRows) };
}

/**
 * Reads the orders of some segments as they were when the manifest was read. The result lacks a
 * segment if the database lacks that state, for example after a bulk change or on an old replica.
 */
async function readSegments(
  source: StatementSource,
  { version, sequence: last }: Manifest,
  segments: readonly Segment[],
): Promise<SegmentJson> {
  const wanted = segments.map(({ version: of, firstId, lastId }) => [of, firstId, lastId]);
  const values = { segments: JSON.stringify(wanted), sequence: last, version };
  return jsonIn(await SEGMENTS.all(source, values));
}

const writer = new OrderWriter();

function jsonIn(rows: readonly TextRow[]): SegmentJson {
  const read = rows.filter((row): row is TextRow & { text: string } => row.text !== null);
  return new Map(read.map(({ version, text }) => [version, writer.json(text)]));
}
