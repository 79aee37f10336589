/**
 * A range of ids and the orders in it. Triggers in the database (`migrations/orders`) give a
 * segment a new random version with every change of its orders, whoever makes the change. So a
 * version identifies the same orders forever, and segments in memory need no invalidation.
 */
export interface Segment {
  /** The smallest and the largest id that belong to the segment: int64s in decimal. */
  readonly firstId: string;
  readonly lastId: string;
  readonly version: string;
  /** The number of orders in the segment; sometimes too large, never too small. */
  readonly count: number;
}

/**
 * All segments of the list at one moment, in ascending order of ids. `version` is the version of
 * the list. Triggers in the database change it with every change of an order.
 */
export interface Manifest {
  readonly version: string;
  /** The sequence number of the change that set `version` (see `order_changes`). */
  readonly sequence: number;
  readonly segments: readonly Segment[];
}

/** The orders of segments in shorthand (see `orderShorthand`), by the segment's version. */
export type SegmentTexts = ReadonlyMap<string, string>;
