import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { orderShorthand, SEPARATOR } from "./order-json.ts";

/** The method of a D1 database or a D1 session that the queries use. */
export type StatementSource = Pick<D1DatabaseSession, "prepare">;

/** A range of ids and its orders. Segments of the same version always contain the same orders. */
export interface Segment {
  /** The smallest and the largest id that belong to the segment: int64s in decimal. */
  readonly firstId: string;
  readonly lastId: string;
  readonly version: string;
  /** An upper bound of the number of orders: `INSERT OR REPLACE` may count an order twice. */
  readonly count: number;
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

/** The orders of each segment in shorthand (see `orderShorthand`), by the segment's version. */
export type SegmentTexts = ReadonlyMap<string, string>;

export interface Snapshot extends ListVersion {
  readonly servedBy: { readonly region: string | null; readonly isPrimary: boolean };
  /** `null` if no request needed the manifest, or the list has one of the known versions. */
  readonly manifest: Manifest | null;
  /** The segments that were not in memory; if more than `maxMissing`, only the first one. */
  readonly texts: SegmentTexts;
}

interface SnapshotNeeds {
  /** Whether a request needs the manifest, unless the list has one of `knownVersions`. */
  readonly needsManifest: boolean;
  readonly knownVersions: readonly string[];
  readonly segmentVersions: readonly string[];
  /** If memory lacks more segments than this, the query reads only the first missing one. */
  readonly maxMissing: number;
}

/** Returns a SQL expression that joins the column `shorthand` of `select` into one text. */
function joined(select: string): string {
  return `(SELECT ifnull(group_concat(shorthand, '${SEPARATOR}'), '') FROM (${select}))`;
}

/** A SQL subquery for the orders of the segment in the outer query's current row `segment`. */
const TEXT = joined(`
  SELECT ${orderShorthand("orders")} AS shorthand FROM orders
  WHERE orders.id BETWEEN segment.first_id AND ifnull((
    SELECT min(later.first_id) - 1 FROM order_segments AS later
    WHERE later.first_id > segment.first_id
  ), ${INT64_MAX})
  ORDER BY orders.id`);

/** True if `version` is not in the JSON array `?2`. Unlike `json_each`, `instr` reads no rows. */
const IS_MISSING = `instr(?2, '"' || version || '"') = 0`;

/**
 * A single statement, so the version, the manifest and the orders are consistent. If no request
 * needs the manifest, the join compares `first_id` with `NULL`: the statement reads only one row.
 */
const SNAPSHOT = `
  SELECT list.version AS list_version, list.sequence AS sequence,
    CAST(segment.first_id AS TEXT) AS first_id, segment.version AS version, segment.count AS count,
    iif(
      instr(?2, '"' || segment.version || '"') = 0 AND (
        (SELECT count(*) FROM order_segments WHERE ${IS_MISSING}) <= ?3
        OR segment.first_id = (SELECT min(first_id) FROM order_segments WHERE ${IS_MISSING})
      ), ${TEXT}, NULL
    ) AS text
  FROM order_list AS list LEFT JOIN order_segments AS segment ON segment.first_id >=
    iif(?1 IS NULL OR instr(?1, '"' || list.version || '"') > 0, NULL, ${INT64_MIN})
  WHERE list.id = 1 ORDER BY segment.first_id`;

/**
 * Reads the orders of the segments in `?1`, as they were after the change with the sequence number
 * `?2` and the list version `?3`. Reads nothing if the database does not know this change: on an
 * older replica or after a restore, a segment of the same version can have a smaller range.
 *
 * - A segment that still has its version is read from `orders` alone.
 * - For any other segment, orders that have changed since are read from `order_changes`, in their
 *   state before the first change. `text` is `NULL` after a bulk change, which keeps no states.
 *
 * A segment's range of ids comes from the manifest, because the range may have been split since.
 */
const SEGMENTS = `
  WITH wanted AS (
    SELECT value ->> 0 AS version, CAST(value ->> 1 AS INTEGER) AS first_id,
      CAST(value ->> 2 AS INTEGER) AS last_id
    FROM json_each(?1)
  ), former AS MATERIALIZED (
    SELECT min(sequence), id, was_listed, pet_id, quantity, ship_date, complete
    FROM order_changes WHERE sequence > ?2 GROUP BY id
  )
  SELECT wanted.version AS version, CASE
    WHEN EXISTS (
      SELECT 1 FROM order_segments AS segment
      WHERE segment.first_id = wanted.first_id AND segment.version = wanted.version
    ) THEN ${joined(`
      SELECT ${orderShorthand("orders")} AS shorthand FROM orders
      WHERE orders.id BETWEEN wanted.first_id AND wanted.last_id ORDER BY orders.id`)}
    WHEN NOT EXISTS (SELECT 1 FROM order_changes WHERE sequence > ?2 AND id IS NULL)
    THEN ${joined(`
      SELECT orders.id AS id, ${orderShorthand("orders")} AS shorthand FROM orders
      WHERE orders.id BETWEEN wanted.first_id AND wanted.last_id
        AND orders.id NOT IN (SELECT id FROM former)
      UNION ALL
      SELECT former.id, ${orderShorthand("former")} FROM former
      WHERE former.id BETWEEN wanted.first_id AND wanted.last_id AND former.was_listed
      ORDER BY 1`)}
  END AS text
  FROM wanted WHERE EXISTS (SELECT 1 FROM order_changes WHERE sequence = ?2 AND version = ?3)`;

interface TextRow {
  readonly version: string;
  readonly text: string | null;
}

type SnapshotRow = { readonly list_version: string; readonly sequence: number } & (
  | (TextRow & { readonly first_id: string; readonly count: number })
  | { readonly first_id: null }
);

/** Reads the list's version and, if a request needs it, the manifest and segments not in memory. */
export async function readSnapshot(
  source: StatementSource,
  { needsManifest, knownVersions, segmentVersions, maxMissing }: SnapshotNeeds,
): Promise<Snapshot> {
  const known = needsManifest ? JSON.stringify(knownVersions) : null;
  const statement = source
    .prepare(SNAPSHOT)
    .bind(known, JSON.stringify(segmentVersions), maxMissing);
  const { results: rows, meta } = await statement.all<SnapshotRow>();
  const [list] = rows;
  if (list === undefined) throw new Error("The database has no version of the list.");
  const { list_version: version, sequence } = list;
  const servedBy = {
    region: meta.served_by_region ?? null,
    isPrimary: meta.served_by_primary ?? false,
  };
  const snapshot = { version, sequence, servedBy };
  if (list.first_id === null) return { ...snapshot, manifest: null, texts: new Map() };
  const segmentRows = rows.filter((row) => row.first_id !== null);
  const segments = segmentRows.map((row, index) => {
    const nextId = segmentRows[index + 1]?.first_id;
    const lastId = String(nextId === undefined ? INT64_MAX : BigInt(nextId) - 1n);
    return { firstId: row.first_id, lastId, version: row.version, count: row.count };
  });
  const manifest = { version, sequence, segments };
  return { ...snapshot, manifest, texts: textsIn(segmentRows) };
}

/**
 * Reads the orders of some segments as they were when the manifest was read. The result lacks a
 * segment if the database lacks that state, for example after a bulk change or on an old replica.
 */
export async function readSegments(
  source: StatementSource,
  { version, sequence }: Manifest,
  segments: readonly Segment[],
): Promise<SegmentTexts> {
  const wanted = segments.map((segment) => [segment.version, segment.firstId, segment.lastId]);
  const statement = source.prepare(SEGMENTS).bind(JSON.stringify(wanted), sequence, version);
  return textsIn((await statement.all<TextRow>()).results);
}

function textsIn(rows: readonly TextRow[]): SegmentTexts {
  const read = rows.filter((row): row is TextRow & { text: string } => row.text !== null);
  return new Map(read.map(({ version, text }) => [version, text]));
}
