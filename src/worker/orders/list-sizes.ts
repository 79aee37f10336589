/**
 * Limits on the memory and queries for the lists that an isolate sends. Tests use smaller values.
 * The glossary in docs/architecture.md defines segment, manifest, snapshot and shorthand.
 */
export interface ListSizes {
  /**
   * The number of snapshot queries that run at the same time. All further requests wait and share
   * the next snapshot query.
   */
  readonly concurrency: number;
  /**
   * If at most this many segments are missing in memory, a single query reads them and the
   * manifest. If more are missing, this query reads only the first of them.
   */
  readonly missingWithManifest: number;
  /** The most segments that one query reads. */
  readonly groupSegments: number;
  /**
   * The most queries whose segments one list holds, so that the queries of a distant database
   * overlap. Cloudflare opens at most six connections at a time for each request.
   */
  readonly groupsAhead: number;
  /** The least memory in bytes that a list has for its queries while it is sent. */
  readonly queryBytes: number;
  /**
   * The bytes of shorthand that are converted to one piece of a list's JSON. With larger pieces, a
   * list is sent faster, but needs more memory.
   */
  readonly sliceBytes: number;
  /**
   * The most segments of a list. A longer list would exceed the 1,000 database queries that
   * Cloudflare allows for each request.
   */
  readonly maxSegments: number;
  /**
   * The memory for all lists that are being sent. If too little of this memory is left for another
   * list, the request for that list receives a 503.
   */
  readonly underWayBytes: number;
  /** The service aborts a list if the client reads nothing of it for this long. */
  readonly stallMs: number;
}

/**
 * The values that the deployed service uses. `test/capacity` estimates the capacity from
 * them.
 */
export const LIST_SIZES: ListSizes = {
  concurrency: 2,
  missingWithManifest: 16,
  groupSegments: 4,
  groupsAhead: 6,
  queryBytes: 768 * 1_024,
  sliceBytes: 256 * 1_024,
  maxSegments: 3_600,
  underWayBytes: 40 * 2 ** 20,
  stallMs: 60_000,
};

/** The memory for the segments of the newest manifest. A million orders of ordinary size fit. */
export const MEMORY_BYTES = 48 * 2 ** 20;
