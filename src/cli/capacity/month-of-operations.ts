import { type Basis, MONTH_DAYS, MONTH_SECONDS, type Scale } from "./basis.ts";
import type { ListLoad } from "./list-load.ts";
import type { MonthOfRequests } from "./month-of-requests.ts";
import { type Operations, OPERATIONS, totalOperations } from "./operations.ts";

/** What a month makes the objects and the database do. */
export interface MonthOfOperations {
  readonly total: Operations;
  readonly databaseBusy: DatabaseBusy;
}

/** Of the time of one D1 database, what the busiest hour takes: above 1 is more than there is. */
export interface DatabaseBusy {
  readonly atPeak: number;
  /** What is left of it to the primary where replicas read all pages of a list but the first. */
  readonly atPeakWithReplicas: number;
}

/** Adds up the operations of all that happens in a month. */
export function monthOfOperations(
  { keys }: Scale,
  requests: MonthOfRequests,
  list: ListLoad,
  basis: Basis,
): MonthOfOperations {
  const { mean, activeShare } = basis.traffic;
  const keyDays = keys * MONTH_DAYS;
  const decisions = totalOperations([
    [OPERATIONS.admission, requests.lists + requests.cancellations],
    [OPERATIONS.refusal, requests.refusedByObject],
    [OPERATIONS.failedAuthentication, requests.unauthorized],
  ]);
  const reads = totalOperations([
    [OPERATIONS.keyLookUp, mean.keyLookUps * keyDays],
    // Read ahead while the object decides, also where it then refuses.
    [OPERATIONS.listVersion, requests.lists + requests.refusedByObject],
    [OPERATIONS.vainCancellation, requests.cancellations - requests.cancelled],
  ]);
  const writes = totalOperations([
    [OPERATIONS.cancellation, requests.cancelled],
    [OPERATIONS.placement, requests.ordersPlaced],
    [OPERATIONS.usageReport, mean.reports * keyDays],
    // An object ends where its key is not used again on the next day.
    [OPERATIONS.objectEnd, activeShare * (1 - activeShare) * keyDays],
  ]);
  const pages = totalOperations([[OPERATIONS.listPage, list.pagesRead]]);
  const total = totalOperations([decisions, reads, writes, pages].map((part) => [part, 1]));
  const { cost } = basis.assumptions;
  const pageMs = basis.measured.pageReadMs * list.pageFill;
  const restMs = reads.queries * cost.databaseReadMs + writes.queries * cost.databaseWriteMs;
  const atPeak = (busyMs: number) => (busyMs / 1_000 / MONTH_SECONDS) * basis.traffic.peakFactor;
  return {
    total: { ...total, rowsRead: total.rowsRead + list.ordersRead },
    databaseBusy: {
      atPeak: atPeak(restMs + list.pagesRead * pageMs),
      atPeakWithReplicas: atPeak(restMs + list.firstPagesRead * pageMs),
    },
  };
}
