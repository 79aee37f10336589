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
import { DATABASE_TIME } from "../../store/database.ts";
import { type NearestReads, StaleReplicaError } from "../db/nearest-reads.ts";
import { db, Statement, type StatementSource } from "../db/statement.ts";
import { pause } from "../deadline.ts";
import { joined, toJson, valuesOf } from "../../schema/order-json.ts";
import { ListError } from "./list-error.ts";

/** A range of ids and its orders. One version always names the same orders. */
export interface Segment {
  /** The smallest and the largest id that belong to the segment: int64s in decimal. */
  readonly firstId: string;
  readonly lastId: string;
  readonly version: string;
  /** An upper bound of the length of its JSON, which a trigger keeps below `SEGMENT_BYTES`. */
  readonly bytes: number;
}

/** All segments of the list at one moment, in ascending order of ids. */
export interface Manifest {
  /** The version of the list. Triggers in the database change it with every change of an order. */
  readonly version: string;
  /** The sequence number of the last change (see `order_changes`). */
  readonly sequence: number;
  readonly segments: readonly Segment[];
}

/** The JSON of each segment by the segment's version: its orders, each after a comma. */
export type SegmentJson = ReadonlyMap<string, Uint8Array>;

/** Reads segments of one list with one query. */
export type ReadSegments = (segments: readonly Segment[]) => Promise<SegmentJson>;

/** A manifest that has no segments if the list has one of the known versions. */
export interface Snapshot extends Manifest {
  readonly servedBy: { readonly region: string | null; readonly isPrimary: boolean };
  /** The segments that were not in memory; only the first one if they exceed `maxMissingBytes`. */
  readonly json: SegmentJson;
}

export interface SnapshotNeeds {
  /** Segments are not needed if the list has one of these versions; `*` stands for all. */
  readonly knownVersions: readonly string[] | "*";
  readonly segmentVersions: readonly string[];
  /** If memory lacks more bytes than this, the query reads only the first missing segment. */
  readonly maxMissingBytes: number;
  readonly mayReadReplica: boolean;
}

const known = sql.placeholder("known");
const sequence = sql.placeholder("sequence");

const segment = alias(orderSegments, "segment");
const later = alias(orderSegments, "later");
const former = alias(orderChanges, "former");

/** True for a segment whose version is not in memory. SQLite reads the versions in memory once. */
function isMissing({ version }: { readonly version: SQLWrapper }): SQL {
  return sql`${version} NOT IN (SELECT value FROM json_each(${sql.placeholder("inMemory")}))`;
}

/** Returns a SQL expression for the orders with these ids, as one text. */
function ordersBetween(first: SQLWrapper, last: SQLWrapper): SQL {
  return joined(sql`
    SELECT ${valuesOf(orders)} AS order_values FROM ${orders}
    WHERE ${orders.id} BETWEEN ${first} AND ${last} ORDER BY ${orders.id}`);
}

/**
 * A single statement, so the version, the manifest and the orders are consistent. If no request
 * needs the manifest, the join compares `first_id` with `NULL`: the statement reads only one row.
 */
const SNAPSHOT = Statement.ofSql<SnapshotRow>(
  () => sql`
  SELECT ${orderList.version} AS list_version, ${orderList.sequence} AS sequence,
    ${exact(segment.firstId)} AS first_id,
    ${segment.version} AS version, ${segment.bytes} AS bytes,
    iif(
      ${segment.firstId} IS NOT NULL AND ${isMissing(segment)} AND (
        (SELECT sum(${orderSegments.bytes}) FROM ${orderSegments} WHERE ${isMissing(orderSegments)})
          <= ${sql.placeholder("maxMissingBytes")}
        OR ${segment.firstId} = (
          SELECT min(${orderSegments.firstId}) FROM ${orderSegments} WHERE ${isMissing(orderSegments)})
      ), ${ordersBetween(
        segment.firstId,
        sql`ifnull((
          SELECT min(${later.firstId}) - 1 FROM ${orderSegments} AS later
          WHERE ${later.firstId} > ${segment.firstId}
        ), ${sql.raw(String(INT64_MAX))})`,
      )}, NULL
    ) AS text
  FROM ${orderList} LEFT JOIN ${orderSegments} AS segment ON ${segment.firstId} >= iif(
    ${known} IS NULL OR instr(${known}, '"' || ${orderList.version} || '"') > 0, NULL, ${sql.raw(String(INT64_MIN))})
  WHERE ${orderList.id} = 1 ORDER BY ${segment.firstId}`,
);

/**
 * Reads segments as they were after the change `sequence` with the list version `version`: orders that
 * have changed since from `order_changes`, in their state before the first change. Reads nothing if the
 * database does not know this change: on an older replica or after a restore, a segment of the same
 * version can have a smaller range. `text` is `NULL` after a bulk change, which keeps no states.
 */
const SEGMENTS = Statement.ofSql<SegmentRow>(
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
    ) THEN ${ordersBetween(sql`wanted.first_id`, sql`wanted.last_id`)}
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
const LEASE = Statement.of(() =>
  db
    .insert(orderListLeases)
    .values({ sequence, renewedAt: DATABASE_TIME })
    .onConflictDoUpdate({ target: orderListLeases.sequence, set: { renewedAt: DATABASE_TIME } }),
);

interface SegmentRow {
  readonly version: string;
  readonly text: string | null;
}

type SnapshotRow = { readonly list_version: string; readonly sequence: number } & (
  | (SegmentRow & { readonly first_id: string; readonly bytes: number })
  | { readonly first_id: null }
);

/**
 * Reads the list's version and, if a request needs them, its segments and the JSON not in memory.
 *
 * @throws {DatabaseUnavailableError} if the primary database does not respond.
 */
export function readSnapshot(
  reads: NearestReads,
  database: D1Database,
  { knownVersions, segmentVersions, maxMissingBytes, mayReadReplica }: SnapshotNeeds,
): Promise<Snapshot> {
  const knownJson = knownVersions === "*" ? null : JSON.stringify(knownVersions);
  const inMemory = JSON.stringify(segmentVersions);
  const values = { known: knownJson, inMemory, maxMissingBytes };
  return reads.run(database, mayReadReplica, async (source) => {
    const result = await SNAPSHOT.bind(source, values).all();
    // Without a session, D1 always queries the primary, whether or not its result says so.
    const isPrimary = source === database || (result.meta.served_by_primary ?? false);
    const servedBy = { region: result.meta.served_by_region ?? null, isPrimary };
    const rows = SNAPSHOT.rows(result);
    const [list] = rows;
    if (list === undefined) throw new Error("The database has no version of the list.");
    const found = rows.filter((row) => row.first_id !== null);
    const segments = found.map(({ first_id: firstId, version, bytes }, index) => {
      const nextId = found[index + 1]?.first_id;
      const lastId = String(nextId === undefined ? INT64_MAX : BigInt(nextId) - 1n);
      return { firstId, lastId, version, bytes };
    });
    const { list_version: version, sequence: last } = list;
    return { version, sequence: last, segments, servedBy, json: jsonIn(found) };
  });
}

/**
 * Returns a function that reads segments of one list as they were when the manifest was read, or
 * throws a `ListError`. Once the primary has been queried, the list stays with it, because D1 allows
 * a request 1,000 queries. `waitUntil` keeps the request alive until a query settles.
 */
export function segmentReader(
  reads: NearestReads,
  database: D1Database,
  { version, sequence: last }: Manifest,
  waitUntil: (promise: Promise<unknown>) => void,
): ReadSegments {
  let mayReadReplica = true;
  return (segments) => {
    const wanted = segments.map((one) => [one.version, one.firstId, one.lastId]);
    const values = { segments: JSON.stringify(wanted), sequence: last, version };
    const query = async (source: StatementSource) => {
      const isReplica = source !== database;
      mayReadReplica &&= isReplica;
      const json = jsonIn(await SEGMENTS.all(source, values));
      if (isReplica && json.size < segments.length) throw new StaleReplicaError();
      return json;
    };
    // A local D1 runs on the Worker's thread. Yield first, so that queued output is flushed and other
    // requests continue.
    const reading = pause(0).then(async () => {
      const json = await reads.run(database, mayReadReplica, query);
      if (json.size < segments.length) throw new ListError("order_list_moved");
      return json;
    });
    waitUntil(reading.catch(() => undefined));
    return reading;
  };
}

/** Keeps the former states that a list is read from for a day more. Logs a failure. */
export function renewLease({ queries }: NearestReads, database: D1Database, manifest: Manifest) {
  const renewal = () => LEASE.bind(database, { sequence: manifest.sequence }).run();
  const renewed = queries.run(renewal, { isRepeatable: true });
  return renewed.catch((error: unknown) => queries.outage.failed({ error }));
}

function jsonIn(rows: readonly SegmentRow[]): SegmentJson {
  const json = new Map<string, Uint8Array>();
  for (const { version, text } of rows) if (text !== null) json.set(version, toJson(text));
  return json;
}
