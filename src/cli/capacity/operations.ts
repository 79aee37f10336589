/** What Cloudflare bills of a request or of what goes on beside them, and what D1 has to do for it. */
export interface Operations {
  /** Calls of Durable Objects, alarms included. */
  readonly objectCalls: number;
  /** Rows written in objects: keys put or deleted, and alarms set. */
  readonly objectRowsWritten: number;
  /** Queries of D1; a batch is one. */
  readonly queries: number;
  readonly rowsRead: number;
  readonly rowsWritten: number;
}

const NOTHING: Operations = {
  objectCalls: 0,
  objectRowsWritten: 0,
  queries: 0,
  rowsRead: 0,
  rowsWritten: 0,
};

/**
 * The operations of everything that the service does on a warm isolate, each by itself: a request
 * is the sum of its parts. `test/capacity/operations.test.ts` counts them in the running service.
 */
export const OPERATIONS = {
  /** The limiter admits a request and stores its count, whatever the answer then is. */
  admission: { ...NOTHING, objectCalls: 1, objectRowsWritten: 1 },
  /** The limiter refuses one that the isolate could not refuse from memory. */
  refusal: { ...NOTHING, objectCalls: 1 },
  /** The list's version is read: all that a 304 or a list that is kept somewhere costs. */
  listVersion: { ...NOTHING, queries: 1, rowsRead: 1 },
  /** A page of the list is read. Each order on it, cancelled ones included, is a row read more. */
  listPage: { ...NOTHING, queries: 1, rowsRead: 2 },
  /** A pending order is cancelled, and the version of the list replaced. */
  cancellation: { ...NOTHING, queries: 1, rowsRead: 6, rowsWritten: 2 },
  /** A cancellation finds no order, or one that has shipped. */
  vainCancellation: { ...NOTHING, queries: 1, rowsRead: 3 },
  /** An order is placed or shipped, among many of one import, and the version of the list replaced. */
  placement: { ...NOTHING, rowsRead: 4, rowsWritten: 2 },
  /** An isolate looks a key up. */
  keyLookUp: { ...NOTHING, queries: 1, rowsRead: 1 },
  /** A request without a valid key is counted for its address, in the isolate's memory. */
  failedAuthentication: NOTHING,
  /** A key that was used reports it, after an hour: the alarm, set for it and once more after it. */
  usageReport: { ...NOTHING, objectCalls: 1, objectRowsWritten: 2, queries: 1, rowsWritten: 1 },
  /** The object of a key that is used no more removes itself. */
  objectEnd: { ...NOTHING, objectCalls: 1, objectRowsWritten: 2, queries: 1 },
} as const satisfies Readonly<Record<string, Operations>>;

/** Orders in a page of a list (`PAGE_ORDERS` of `src/orders/order-pages.ts`). */
export const LIST_PAGE_ORDERS = 13_483;

/** Bytes on disk of a Durable Object that has counted a day of its key. */
export const OBJECT_BYTES = 12_288;

/** Adds operations up, each so many times. */
export function totalOperations(
  parts: readonly (readonly [operations: Operations, times: number])[],
): Operations {
  const sum = (name: keyof Operations) =>
    parts.reduce((total, [operations, times]) => total + operations[name] * times, 0);
  return {
    objectCalls: sum("objectCalls"),
    objectRowsWritten: sum("objectRowsWritten"),
    queries: sum("queries"),
    rowsRead: sum("rowsRead"),
    rowsWritten: sum("rowsWritten"),
  };
}
