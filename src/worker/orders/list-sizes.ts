import { SEGMENT_BYTES } from "../../schema/orders.ts";

const MEBIBYTE = 2 ** 20;

/**
 * Limits on the memory and the queries for lists. Tests use smaller values. An isolate may have 128
 * MiB: 64 of segments in memory, 24 of lists alone, 15 for each of two results of the first query
 * while memory lacks as much, and 10 for the code and its objects.
 */
export const LIST_SIZES = {
  /** The memory for segments that lists share: 700,000 ordinary orders. */
  memoryBytes: 64 * MEBIBYTE,
  /** What lists may hold alone: segments that memory has no room for. */
  placeBytes: 24 * MEBIBYTE,
  /** How many snapshot queries may run at the same time. Further requests share the next. */
  concurrency: 2,
  /** The segments that are read with the manifest. If memory lacks more, only one is read. */
  bytesWithManifest: 8 * MEBIBYTE,
  /** The segments of one query that reads ahead. */
  groupBytes: 3 * MEBIBYTE,
  /** How many groups a list may read ahead. Cloudflare sends six queries of a request at a time. */
  groupsAhead: 10,
  /** How many queries a list may need if it reads nothing ahead: D1 allows a request 1,000. */
  maxQueries: 900,
  /** How many segments a list may have: `maxQueries` groups. */
  maxSegments: (900 * 3 * MEBIBYTE) / SEGMENT_BYTES,
  /** A list of one segment up to this size is sent as a copy. A stream costs more time. */
  shortBytes: 65_536,
  /** How long a list that needs a place waits for one before it is refused. */
  lineMs: 10_000,
  /** How long the list of a key without any waits until another key's list gives up its place. */
  patienceMs: 2_000,
  /** A list whose client has taken nothing for this long may lose its place. */
  stallMs: 60_000,
  /** How often a list renews its lease, for which housekeeping keeps former states: for a day. */
  leaseMs: 6 * 3_600_000,
};

export type ListSizes = Readonly<typeof LIST_SIZES>;
