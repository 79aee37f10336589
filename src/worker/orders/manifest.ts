/** A part of the id line, with the orders in it. Its version names these orders for ever. */
export interface Segment {
  /** The smallest id that belongs to the segment: an int64 in decimal. */
  readonly firstId: string;
  readonly version: string;
  /** At least the number of its orders. */
  readonly count: number;
}

/** All segments of the list at one moment, in ascending id. Its version names them for ever. */
export interface Manifest {
  readonly version: string;
  readonly segments: readonly Segment[];
}
