import { sql } from "drizzle-orm";
import { SQLiteSyncDialect } from "drizzle-orm/sqlite-core";
import { orderList, orderSegments, orders } from "../db/schema.ts";
import { INT64_MAX } from "./int64.ts";
import { type Manifest, parseManifest, type Segment } from "./manifest.ts";
import { orderShorthand, SEPARATOR, Shorthand } from "./shorthand.ts";

/** The part of D1 that reads need; a session has it too. */
export type StatementSource = Pick<D1DatabaseSession, "prepare">;

/** Orders of segments, by the version of the segment. */
export type SegmentTexts = ReadonlyMap<string, Shorthand>;

/** What the database held at one moment. */
export interface Snapshot {
  /** The version of the list. */
  readonly version: string;
  /** `null` if nobody needed it. */
  readonly manifest: Manifest | null;
  /** The orders of segments that were missing. */
  readonly texts: SegmentTexts;
}

/** What the requests that share a query have already. */
export interface Possessions {
  /** List versions at which nobody needs more than the version; `null` if nobody ever does. */
  readonly listVersions: readonly string[] | null;
  /** Versions of segments in memory, as a JSON array. */
  readonly segmentVersions: string;
  /** If at most this many segments are missing, all of them are read. Otherwise only the first. */
  readonly maxMissing: number;
}

const dialect = new SQLiteSyncDialect();

const lastId = sql`ifnull(lead(${orderSegments.firstId}) OVER (ORDER BY ${orderSegments.firstId}) - 1, ${sql.raw(String(INT64_MAX))})`;

/** The orders from `first_id` to `last_id` of the row of the outer query. */
const text = sql`(
  SELECT ifnull(group_concat(shorthand, '${sql.raw(SEPARATOR)}'), '') FROM (
    SELECT ${orderShorthand} AS shorthand FROM ${orders}
    WHERE ${orders.id} BETWEEN missing.first_id AND missing.last_id ORDER BY ${orders.id}
  )
)`;

/**
 * A single statement, so the version, the manifest and the orders are of one moment, after one round
 * trip. Reads one row if the caller already has the list's version. Triggers change that version
 * with every change of an order.
 */
const SNAPSHOT_SQL = dialect.sqlToQuery(sql`
  WITH
    list AS MATERIALIZED (
      SELECT ${orderList.version} AS version,
        ?1 IS NOT NULL AND ${orderList.version} NOT IN (SELECT value FROM json_each(?1)) AS is_needed
      FROM ${orderList}
    ),
    segments AS MATERIALIZED (
      SELECT first_id, ${orderSegments.version} AS version, count, ${lastId} AS last_id
      FROM list CROSS JOIN ${orderSegments} WHERE is_needed
    ),
    missing AS MATERIALIZED (
      SELECT first_id, last_id, version FROM segments
      WHERE version NOT IN (SELECT value FROM json_each(?2))
    )
  SELECT version, iif(is_needed, (
    SELECT json_group_array(json_array(CAST(first_id AS TEXT), version, count))
    FROM (SELECT first_id, version, count FROM segments ORDER BY first_id)
  ), NULL) AS text FROM list
  UNION ALL
  SELECT version, ${text} AS text FROM (
    SELECT first_id, last_id, version FROM missing ORDER BY first_id
    LIMIT (SELECT iif(count(*) <= ?3, ?3, 1) FROM missing)
  ) AS missing`).sql;

/** Reads no order of a segment that has another version by now. */
const SEGMENTS_SQL = dialect.sqlToQuery(sql`
  SELECT version, ${text} AS text FROM (
    SELECT first_id, version,
      ifnull((SELECT min(later.first_id) - 1 FROM ${orderSegments} AS later WHERE later.first_id > segment.first_id), ${sql.raw(String(INT64_MAX))}) AS last_id
    FROM json_each(?1) AS wanted
    JOIN ${orderSegments} AS segment ON segment.first_id = CAST(wanted.value ->> 0 AS INTEGER)
    WHERE segment.version = wanted.value ->> 1
  ) AS missing`).sql;

interface Row {
  readonly version: string;
  readonly text: string | null;
}

/** Reads the list's version and, if anybody needs them, the manifest and missing segments. */
export async function readSnapshot(
  source: StatementSource,
  { listVersions, segmentVersions, maxMissing }: Possessions,
): Promise<Snapshot> {
  const known = listVersions === null ? null : JSON.stringify(listVersions);
  const statement = source.prepare(SNAPSHOT_SQL).bind(known, segmentVersions, maxMissing);
  const [list, ...segments] = (await statement.all<Row>()).results;
  if (list === undefined) throw new Error("The database has no version of the list.");
  const { version, text: manifest } = list;
  return {
    version,
    manifest: manifest === null ? null : parseManifest(version, manifest),
    texts: textsIn(segments),
  };
}

/** Reads the orders of segments that still have these versions; the result lacks all others. */
export async function readSegments(
  source: StatementSource,
  segments: readonly Segment[],
): Promise<SegmentTexts> {
  const wanted = JSON.stringify(segments.map(({ firstId, version }) => [firstId, version]));
  return textsIn((await source.prepare(SEGMENTS_SQL).bind(wanted).all<Row>()).results);
}

function textsIn(rows: readonly Row[]): SegmentTexts {
  return new Map(rows.map((row) => [row.version, Shorthand.fromText(row.text ?? "")]));
}
