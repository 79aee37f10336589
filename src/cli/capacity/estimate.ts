import { type Basis, MONTH_DAYS, type Scale } from "./basis.ts";
import { type Bill, bill, type BilledUse } from "./bill.ts";
import { type LimitShare, limitShares } from "./limits.ts";
import { type ListLoad, listLoad } from "./list-load.ts";
import { type DatabaseBusy, monthOfOperations } from "./month-of-operations.ts";
import { type MonthOfRequests, monthOfRequests } from "./month-of-requests.ts";
import { OBJECT_BYTES, type Operations } from "./operations.ts";

const GB = 1e9;
/** The memory for which an object at work is billed, whatever it uses. */
const OBJECT_GB = 0.128;
/** For so long Workers Logs keeps a line. */
const LOG_DAYS_KEPT = 7;
/** An object lives until its key's day window and day of usage are over: so many days at most. */
const OBJECT_DAYS = 2;

/** A month at one scale. */
export interface Estimate extends Scale {
  readonly requests: MonthOfRequests;
  readonly list: ListLoad;
  readonly operations: Operations;
  readonly databaseBusy: DatabaseBusy;
  readonly bytes: MonthOfBytes;
  readonly use: BilledUse;
  readonly bill: Bill;
  /** The limits of the platform, that of which most is used first. */
  readonly limits: readonly LimitShare[];
}

export interface MonthOfBytes {
  readonly inDatabase: number;
  readonly inObjects: number;
  readonly sent: number;
}

/** Estimates a month. Pure. */
export function estimate(scale: Scale, basis: Basis): Estimate {
  const requests = monthOfRequests(scale, basis);
  const list = listLoad(scale, requests, basis);
  const { total: operations, databaseBusy } = monthOfOperations(scale, requests, list, basis);
  const bytes = bytesOf(scale, requests, list, basis);
  const { cost } = basis.assumptions;
  const logGb = (requests.total * cost.logBytes) / GB;
  const use: BilledUse = {
    requests: requests.total,
    cpuMs: requests.total * cost.requestCpuMs + list.ordersRead * basis.measured.orderCpuMs,
    objectCalls: operations.objectCalls,
    objectGbSeconds: (operations.objectCalls * cost.objectCallMs * OBJECT_GB) / 1_000,
    objectRowsWritten: operations.objectRowsWritten,
    objectGb: bytes.inObjects / GB,
    rowsRead: operations.rowsRead,
    rowsWritten: operations.rowsWritten,
    databaseGb: bytes.inDatabase / GB,
    dataPoints: requests.total,
    logGb,
    logGbMonths: (logGb / MONTH_DAYS) * LOG_DAYS_KEPT,
  };
  const month = { ...scale, requests, list, operations, databaseBusy, bytes, use };
  return { ...month, bill: bill(use), limits: limitShares(month, basis) };
}

function bytesOf(
  { keys, orders }: Scale,
  requests: MonthOfRequests,
  list: ListLoad,
  { traffic, measured, assumptions }: Basis,
): MonthOfBytes {
  const activeKeys = keys * traffic.activeShare;
  const usageRows = activeKeys * assumptions.usageDaysKept;
  return {
    inDatabase:
      orders * measured.orderBytes + keys * measured.keyBytes + usageRows * measured.usageBytes,
    inObjects: activeKeys * OBJECT_DAYS * OBJECT_BYTES,
    sent: list.sentBytes + requests.total * assumptions.cost.answerBytes,
  };
}
