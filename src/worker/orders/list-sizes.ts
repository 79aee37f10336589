/** Limits on the memory and queries for the lists that an isolate sends. Tests use smaller values. */
export const LIST_SIZES = {
  /** How many snapshot queries may run at the same time. Further requests share the next. */
  concurrency: 2,
  /** How many segments may be read with the manifest. If memory lacks more, only one is read. */
  missingWithManifest: 16,
  /** How many segments a query that reads ahead may have. */
  groupSegments: 4,
  /** How many groups a list may read ahead: Cloudflare allows a request six connections. */
  groupsAhead: 6,
  /** How many queries a list may need if it reads nothing ahead: D1 allows a request 1,000. */
  maxQueries: 900,
  /** How many segments a list may have: `maxQueries` groups. */
  maxSegments: 3_600,
  /** The bytes of shorthand of a list that is sent in one piece and needs no place. */
  shortBytes: 256 * 1_024,
  /** The bytes of shorthand in a piece of a longer list. */
  pieceBytes: 256 * 1_024,
  /** The memory of a piece: its JSON is as long as the shorthand of this many of the longest orders. */
  pieceOrders: 6_144,
  /** How many orders all lists under way may hold: 40 MB if all of them are as long as possible. */
  heldOrders: 440_000,
  /** A list whose client has taken nothing for this long gives its place to a list without one. */
  stallMs: 60_000,
  /** How often a list renews its lease, for which housekeeping keeps former states: for a day. */
  leaseMs: 6 * 3_600_000,
};

export type ListSizes = Readonly<typeof LIST_SIZES>;

/** The memory for the segments of the newest manifest: enough for a million ordinary orders. */
export const MEMORY_BYTES = 48 * 2 ** 20;
