/**
 * Limits on the memory and queries for the lists that an isolate sends. Tests use smaller values.
 * `test/capacity` estimates the capacity from them.
 */
export const LIST_SIZES = {
  /** The number of snapshot queries that run at the same time. Further requests wait and share. */
  concurrency: 2,
  /**
   * If at most this many segments are missing in memory, a single query reads them and the
   * manifest. If more are missing, this query reads only the first of them.
   */
  missingWithManifest: 16,
  /** The most segments that one query reads. */
  groupSegments: 4,
  /**
   * The most queries whose segments one list holds, so that the queries of a distant database
   * overlap. Cloudflare opens at most six connections at a time for each request.
   */
  groupsAhead: 6,
  /** The least memory in bytes that a list has for its queries while it is sent. */
  queryBytes: 768 * 1_024,
  /**
   * The bytes of shorthand that are converted to one piece of a list's JSON. With larger pieces, a
   * list is sent faster, but needs more memory.
   */
  sliceBytes: 256 * 1_024,
  /**
   * The most segments of a list. A longer list would exceed the 1,000 database queries that
   * Cloudflare allows for each request.
   */
  maxSegments: 3_600,
  /** The memory in bytes for all lists that are being sent. A list that lacks memory gets a 503. */
  underWayBytes: 40 * 2 ** 20,
  /** The service aborts a list if the client reads nothing of it for this long. */
  stallMs: 60_000,
};

export type ListSizes = Readonly<typeof LIST_SIZES>;

/** The memory for the segments of the newest manifest. A million orders of ordinary size fit. */
export const MEMORY_BYTES = 48 * 2 ** 20;
