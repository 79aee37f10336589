import { LIST_SIZES } from "../../worker/orders/list-sizes.ts";

/** Zero of each operation that Cloudflare bills or that occupies the D1 database. */
export const NO_OPERATIONS = {
  /** Calls of Durable Objects, alarms included. */
  objectCalls: 0,
  /** Keys written or deleted in Durable Objects, and alarms set. */
  objectRowsWritten: 0,
  /** D1 queries. A batch is one query. */
  queries: 0,
  rowsRead: 0,
  rowsWritten: 0,
};

export type Operations = Readonly<typeof NO_OPERATIONS>;

export const OPERATION_NAMES = Object.keys(NO_OPERATIONS) as (keyof Operations)[];

const ADMISSION = { ...NO_OPERATIONS, objectCalls: 1, objectRowsWritten: 1 };

/**
 * The operations of each kind of request, and of the work that requests cause. Tests count every
 * entry in the running service and fail if one differs (`test/worker/operations`).
 */
export const OPERATIONS = {
  /** A list that the isolate keeps, or a 304. */
  unchangedList: { ...ADMISSION, queries: 1, rowsRead: 1 },
  /** The same with 32 requests at once on one key. An upper bound: a slow disk has fewer writes. */
  groupedList: { ...ADMISSION, objectRowsWritten: 0.5, queries: 1, rowsRead: 1 },
  cancellation: { ...ADMISSION, queries: 1, rowsRead: 11, rowsWritten: 5 },
  /** The order does not exist or has shipped. */
  vainCancellation: { ...ADMISSION, queries: 1, rowsRead: 3 },
  unauthorized: NO_OPERATIONS,
  /** The Durable Object refuses a list. The isolate has already begun to read the list. */
  refusal: { ...NO_OPERATIONS, objectCalls: 1, queries: 1, rowsRead: 1 },
  /** The isolate repeats a refusal or a ban from memory. */
  repeatedRefusal: NO_OPERATIONS,
  /** An isolate looks up a key that it does not know, or not recently. */
  keyLookUp: { ...NO_OPERATIONS, queries: 1, rowsRead: 3 },
  /** A command places or ships one order. */
  orderChange: { ...NO_OPERATIONS, queries: 1, rowsRead: 7, rowsWritten: 3 },
  /** A key's Durable Object reports its usage to D1: one alarm, and the next alarm set. */
  usageReport: { ...ADMISSION, objectRowsWritten: 2, queries: 1, rowsWritten: 1 },
  /** A Durable Object deletes itself a day after its last request. */
  objectEnd: { ...ADMISSION, objectRowsWritten: 2, queries: 1 },
} as const satisfies Readonly<Record<string, Operations>>;

/** The orders of a segment in a large store. */
export const SEGMENT_ORDERS = 8_192;

/** The number of segments in which a store keeps its orders. */
export function segmentCount(orders: number): number {
  return Math.max(1, Math.ceil(orders / SEGMENT_ORDERS));
}

/** Rows that D1 counts for each segment of the manifest, and for each segment read. */
const SEGMENT_ROWS = 3;

/**
 * Counts the reads of a list beyond `unchangedList`. Rows are at most 15 % too high, never too low.
 *
 * @param reads.manifestShare the share of the lists that read the manifest.
 */
export function listReads(reads: {
  readonly manifestShare: number;
  readonly segments: number;
  readonly segmentsRead: number;
  readonly ordersPerSegment: number;
}): Operations {
  const { manifestShare, segments, segmentsRead, ordersPerSegment } = reads;
  const readLater = segmentsRead <= LIST_SIZES.missingWithManifest ? 0 : segmentsRead - 1;
  const manifestRows = manifestShare * segments * SEGMENT_ROWS;
  return {
    ...NO_OPERATIONS,
    queries: Math.ceil(readLater / LIST_SIZES.groupSegments),
    rowsRead: manifestRows + segmentsRead * (ordersPerSegment + SEGMENT_ROWS),
  };
}

/** Adds up operations, each multiplied by a number. */
export function sumOperations(
  parts: readonly (readonly [operations: Operations, times: number])[],
): Operations {
  const sum = { ...NO_OPERATIONS };
  for (const [operations, times] of parts) {
    for (const name of OPERATION_NAMES) sum[name] += operations[name] * times;
  }
  return sum;
}
