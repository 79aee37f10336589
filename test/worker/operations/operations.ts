import { LIST_SIZES } from "../../../src/worker/orders/list-sizes.ts";

/** A count of zero for each operation that Cloudflare bills or that keeps the D1 database busy. */
export const NO_OPERATIONS = {
  /** Calls to Durable Objects, alarms included. */
  objectCalls: 0,
  /** Writes and deletions in the storage of Durable Objects, and alarms set. */
  objectRowsWritten: 0,
  /** D1 queries. A batch is one query. */
  queries: 0,
  rowsRead: 0,
  rowsWritten: 0,
};

export type Operations = Readonly<typeof NO_OPERATIONS>;

export const OPERATION_NAMES = Object.keys(NO_OPERATIONS) as (keyof Operations)[];

const ADMISSION = { ...NO_OPERATIONS, objectCalls: 1, objectRowsWritten: 1 };

/** The operations of requests and background work, as counted by the tests in this folder. */
export const OPERATIONS = {
  /** A list request that is answered with 304, or from the isolate's memory. */
  unchangedList: { ...ADMISSION, queries: 1, rowsRead: 1 },
  /**
   * One of 32 simultaneous requests with one key for an unchanged list. On average, a write
   * of the key's Durable Object records at least two of these requests.
   */
  groupedList: { ...ADMISSION, objectRowsWritten: 0.5, queries: 1, rowsRead: 1 },
  cancellation: { ...ADMISSION, queries: 1, rowsRead: 12, rowsWritten: 5 },
  /** The operations that `LIST_READS=nearest` adds to a cancellation, even if the response is 404. */
  nearCancellation: { ...ADMISSION, rowsRead: 1 },
  /** A cancellation that fails because the order does not exist or has shipped. */
  vainCancellation: { ...ADMISSION, queries: 1, rowsRead: 4 },
  unauthorized: NO_OPERATIONS,
  /** The Durable Object refuses a list request. The isolate has already begun to read the list. */
  refusal: { ...NO_OPERATIONS, objectCalls: 1, queries: 1, rowsRead: 1 },
  /** The isolate repeats a refusal or a ban from memory. */
  repeatedRefusal: NO_OPERATIONS,
  /** An isolate looks up a key that it has never looked up, or not recently. */
  keyLookUp: { ...NO_OPERATIONS, queries: 1, rowsRead: 3 },
  /** A command places or ships one order. */
  orderChange: { ...NO_OPERATIONS, queries: 1, rowsRead: 11, rowsWritten: 4 },
  /** An alarm of a key's Durable Object reports the key's usage to D1 and sets the next alarm. */
  usageReport: { ...ADMISSION, objectRowsWritten: 1, queries: 1, rowsWritten: 1 },
  /** A Durable Object deletes itself a day after its last request. */
  objectEnd: { ...ADMISSION, objectRowsWritten: 1, queries: 1 },
} as const satisfies Readonly<Record<string, Operations>>;

/** Sizes in D1, which `sizes.worker.test.ts` checks, and estimates of the log and of times. */
export const MEASURED = {
  /** The size of an order, a key and a usage report in D1, indexes included. */
  orderBytes: 50,
  keyBytes: 480,
  usageReportBytes: 66,
  /** The size of a log line, including the fields that Cloudflare adds. */
  logLineBytes: 1_000,
  /** How long a small read query or a write query keeps the database busy. */
  readMs: 1,
  writeMs: 5,
  /** How long reading a segment, or a segment's entry in the manifest, keeps the database busy. */
  segmentReadMs: 4.5,
  manifestMsPerSegment: 0.005,
  /** The CPU time of the Worker for a request, and for each order of a list. */
  requestCpuMs: 1,
  orderCpuMs: 0.000_063,
  /** How long a Durable Object is active for each call. */
  objectCallMs: 10,
} as const;

/** The assumed number of orders in a segment of a large store. */
export const SEGMENT_ORDERS = 8_192;

export function segmentCount(orders: number): number {
  return Math.max(1, Math.ceil(orders / SEGMENT_ORDERS));
}

/** The rows that D1 counts for each segment in a manifest, and again if the segment is read. */
const SEGMENT_ROWS = 3;

/**
 * Estimates the operations of a changed list, in addition to those of `unchangedList`. The actual
 * number of rows is at most 15 % below the estimate, and never above it.
 */
export function listReads(reads: {
  readonly segments: number;
  readonly segmentsRead: number;
  readonly ordersPerSegment: number;
}): Operations {
  const { segments, segmentsRead, ordersPerSegment } = reads;
  const readLater = segmentsRead <= LIST_SIZES.missingWithManifest ? 0 : segmentsRead - 1;
  return {
    ...NO_OPERATIONS,
    queries: Math.ceil(readLater / LIST_SIZES.groupSegments),
    rowsRead: segments * SEGMENT_ROWS + segmentsRead * (ordersPerSegment + SEGMENT_ROWS),
  };
}

export function sumOperations(
  parts: readonly (readonly [operations: Operations, times: number])[],
): Operations {
  const sum = { ...NO_OPERATIONS };
  for (const [operations, times] of parts) {
    for (const name of OPERATION_NAMES) sum[name] += operations[name] * times;
  }
  return sum;
}
