/**
 * A range of ids and the orders in it. Triggers in the database (`migrations/orders`)
 * give a segment a new random version with every change of its orders, whoever makes
 * the change. So a version names the same orders for ever, and kept segments need no invalidation.
 */
export interface Segment {
  /** The smallest id that belongs to the segment: an int64 in decimal. */
  readonly firstId: string;
  readonly version: string;
  /** The number of orders or more. */
  readonly count: number;
}

/**
 * All segments of the list at one moment, in ascending id. The version is that of the list, which the
 * same triggers change whenever they change the version of a segment.
 */
export interface Manifest {
  readonly version: string;
  readonly segments: readonly Segment[];
}
