import { INT64_MAX, INT64_MIN } from "./int64.ts";
import type { Manifest, Segment } from "./manifest.ts";
import { ORDER_SHORTHAND, SEPARATOR, Shorthand } from "./shorthand.ts";

/** A D1 database or a session of it: the part of their interface that reads need. */
export type StatementSource = Pick<D1DatabaseSession, "prepare">;

/** The orders of segments, by the segment's version. */
export type SegmentTexts = ReadonlyMap<string, Shorthand>;

/** The state of the list at one moment. */
export interface Snapshot {
  /** The version of the list, which triggers in the database set (see `Manifest`). */
  readonly version: string;
  /** `null` if no request needed the manifest. */
  readonly manifest: Manifest | null;
  /**
   * The orders of the segments that were missing in memory. The statement reads only some of them
   * if many are missing.
   */
  readonly texts: SegmentTexts;
}

/** The needs of the requests that share a query. */
interface SnapshotNeeds {
  /**
   * The list versions for which the query can omit the manifest. `null` if the query can omit the
   * manifest for every version.
   */
  readonly listVersions: readonly string[] | null;
  /** The versions of the segments in memory, as a JSON array. */
  readonly segmentVersions: string;
  /**
   * If at most this many segments are missing in memory, the query reads all of them. If more are
   * missing, the query reads only the first of them.
   */
  readonly maxMissing: number;
}

/** A SQL subquery for the orders of the segment in the outer query's current row `segment`. */
const TEXT = `(
  SELECT ifnull(group_concat(shorthand, '${SEPARATOR}'), '') FROM (
    SELECT ${ORDER_SHORTHAND} AS shorthand FROM orders
    WHERE orders.id BETWEEN segment.first_id AND ifnull((
      SELECT min(later.first_id) - 1 FROM order_segments AS later
      WHERE later.first_id > segment.first_id
    ), ${INT64_MAX})
    ORDER BY orders.id
  )
)`;

/**
 * A SQL condition: true if `version` is not in the JSON array `?2`. Unlike `json_each`, `instr`
 * reads no rows.
 */
const IS_MISSING = `instr(?2, '"' || version || '"') = 0`;

/**
 * Reads a snapshot of the list in a single statement. So the version, the manifest and the orders
 * are consistent, and one round trip is enough. If no request needs the manifest, the join compares
 * `first_id` with `NULL`. No segment then matches, and the statement reads only one row.
 */
const SNAPSHOT = `
  SELECT list.version AS list_version, CAST(segment.first_id AS TEXT) AS first_id,
    segment.version AS version, segment.count AS count,
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
 * Reads the orders of the segments in `?1`, except segments whose version has changed. With CROSS
 * JOIN, SQLite reads the wanted segments in its outer loop, whatever its statistics say.
 */
const SEGMENTS = `
  SELECT segment.version AS version, ${TEXT} AS text
  FROM json_each(?1) AS wanted
  CROSS JOIN order_segments AS segment ON segment.first_id = CAST(wanted.value ->> 0 AS INTEGER)
  WHERE segment.version = wanted.value ->> 1`;

interface TextRow {
  readonly version: string;
  readonly text: string | null;
}

/** A row of a snapshot: a segment, or only the list's version if no request needs the manifest. */
type SnapshotRow = { readonly list_version: string } & (
  | (TextRow & { readonly first_id: string; readonly count: number })
  | { readonly first_id: null }
);

/**
 * Reads the list's version and, if a request needs them, the manifest and missing segments. A
 * single statement reads all of this, so every row repeats the list's version.
 */
export async function readSnapshot(
  source: StatementSource,
  { listVersions, segmentVersions, maxMissing }: SnapshotNeeds,
): Promise<Snapshot> {
  const known = listVersions === null ? null : JSON.stringify(listVersions);
  const statement = source.prepare(SNAPSHOT).bind(known, segmentVersions, maxMissing);
  const rows = (await statement.all<SnapshotRow>()).results;
  const [list] = rows;
  if (list === undefined) throw new Error("The database has no version of the list.");
  const version = list.list_version;
  if (list.first_id === null) return { version, manifest: null, texts: new Map() };
  const segments = rows.filter((row) => row.first_id !== null);
  return { version, manifest: toManifest(version, segments), texts: textsIn(segments) };
}

/**
 * Reads the orders of the segments that still have these versions. The result lacks segments whose
 * version has changed.
 */
export async function readSegments(
  source: StatementSource,
  segments: readonly Segment[],
): Promise<SegmentTexts> {
  const wanted = JSON.stringify(segments.map(({ firstId, version }) => [firstId, version]));
  return textsIn((await source.prepare(SEGMENTS).bind(wanted).all<TextRow>()).results);
}

function toManifest(
  version: string,
  rows: readonly { first_id: string; version: string; count: number }[],
): Manifest {
  const segments = rows.map((row) => ({
    firstId: row.first_id,
    version: row.version,
    count: row.count,
  }));
  return { version, segments };
}

function textsIn(rows: readonly TextRow[]): SegmentTexts {
  const read = rows.filter((row): row is TextRow & { text: string } => row.text !== null);
  return new Map(read.map((row) => [row.version, new Shorthand(row.text)]));
}
