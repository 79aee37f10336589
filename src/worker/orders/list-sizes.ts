/** Sizes of the lists of an isolate, which tests make small. */
export interface ListSizes {
  /** Snapshot queries that run at the same time; further requests share the next query. */
  readonly concurrency: number;
  /** If at most this many segments are missing, they are read in one statement with the manifest. */
  readonly missingWithManifest: number;
  /** Segments in one query and in one entry of the cache. */
  readonly groupSegments: number;
  /** The shorthand of one piece. Larger pieces are faster, but fewer lists fit into memory. */
  readonly sliceBytes: number;
  /** Cache calls of a list. The platform allows 1,000 for each invocation. */
  readonly cacheCalls: number;
  /** A longer list would exceed the 1,000 database queries that the platform allows. */
  readonly maxSegments: number;
  /** The memory for lists under way. A list that exceeds it is answered 503. */
  readonly underWayBytes: number;
  readonly stallMs: number;
}

/** The sizes that the service uses. The operator's estimate of capacity follows from them. */
export const LIST_SIZES: ListSizes = {
  concurrency: 4,
  missingWithManifest: 16,
  groupSegments: 4,
  sliceBytes: 256 * 1_024,
  cacheCalls: 950,
  maxSegments: 3_600,
  underWayBytes: 32 * 2 ** 20,
  stallMs: 60_000,
};

/** The memory for the segments of the newest manifest: a million ordinary orders fit. */
export const MEMORY_BYTES = 48 * 2 ** 20;
