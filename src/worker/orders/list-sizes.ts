/** Limits on the memory and queries for the lists that an isolate sends. Tests use smaller values. */
export const LIST_SIZES = {
  /** How many `readSnapshot` queries may run at the same time. Further requests share the next. */
  concurrency: 2,
  /** How many segments may be read with the manifest. If memory lacks more, only one is read. */
  missingWithManifest: 16,
  /** How many segments a group may have. A query reads at most one group. */
  groupSegments: 4,
  /** How many groups a list may read ahead: Cloudflare allows a request six connections. */
  groupsAhead: 6,
  /** A list reserves at least this many bytes of memory for one query. */
  queryBytes: 768 * 1_024,
  /** The bytes of shorthand in a piece of a list. Larger pieces are faster, but need more memory. */
  sliceBytes: 256 * 1_024,
  /** How many segments a list may have: 900 groups. Cloudflare allows a request 1,000 queries. */
  maxSegments: 3_600,
  /** The memory in bytes for all lists being sent. If too little is left, a request gets a 503. */
  underWayBytes: 40 * 2 ** 20,
  /** The service aborts a list if the client reads nothing of it for this long. */
  stallMs: 60_000,
};

export type ListSizes = Readonly<typeof LIST_SIZES>;

/** The memory for the segments of the newest manifest: enough for a million ordinary orders. */
export const MEMORY_BYTES = 48 * 2 ** 20;
