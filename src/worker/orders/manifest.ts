/**
 * A range of ids and the orders in it. Triggers in the database (`migrations/orders`) give a
 * segment a new random version with every change of its orders, whoever makes the change. So a
 * version identifies the same orders forever, and cached segments need no invalidation.
 */
export interface Segment {
  /** The smallest id that belongs to the segment: an int64 in decimal. */
  readonly firstId: string;
  readonly version: string;
  /** The number of orders in the segment; sometimes too large, never too small. */
  readonly count: number;
}

/**
 * All segments of the list at one moment, in ascending order of ids. `version` is the version of
 * the list. Triggers in the database change it whenever they change the version of a segment.
 */
export interface Manifest {
  readonly version: string;
  readonly segments: readonly Segment[];
}
