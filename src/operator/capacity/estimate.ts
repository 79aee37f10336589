import { type Assumptions, MEASURED } from "./assumptions.ts";
import { type LimitName, LIMITS } from "./limits.ts";
import { listLoad } from "./list-load.ts";
import { type Operations, segmentCount, sumOperations } from "./operations.ts";
import { billFor } from "./prices.ts";
import {
  MONTH_DAYS,
  MONTH_SECONDS,
  type DatabaseUse,
  requestsInMonth,
  type Scale,
} from "./requests.ts";

const GB = 1e9;
/** The memory in GB that Cloudflare bills for an active Durable Object. */
const OBJECT_GB = 0.128;
/** If a key is used on one day only, its Durable Object stores rows for this many days. */
const OBJECT_DAYS = 2;
/** The part of a month for which Workers Logs keeps a line: a week. */
const LOG_MONTHS_KEPT = 7 / MONTH_DAYS;
/**
 * The memory that an isolate needs to send one list: one piece of the JSON, and three groups of
 * segments. One query reads one group.
 */
const LIST_BYTES = 5.4e6;

/**
 * The share of a limit that the service uses in the busiest hour. Above 1, it exceeds the limit.
 */
type LimitUse = { readonly name: LimitName; readonly share: number };

/** The estimated load and costs of the service in a month at one scale. */
export interface Estimate extends Scale {
  readonly requests: number;
  readonly requestsPerSecondAtPeak: number;
  readonly operations: Operations;
  /** The use of every limit, the largest share first. */
  readonly limits: readonly [LimitUse, ...LimitUse[]];
  /** The costs of the month; `null` if the service would exceed a limit. */
  readonly bill: ReturnType<typeof billFor> | null;
}

/** Estimates a month of the service with formulas. Ignores queues and timeouts. */
export function estimate(scale: Scale, assumptions: Assumptions): Estimate {
  const { keys, orders } = scale;
  const { peakFactor, dataCentres, isolates } = assumptions;
  const requests = requestsInMonth(scale, assumptions);
  const list = listLoad(orders, requests, assumptions);
  const operations = sumOperations([
    [requests.orders.operations, 1],
    [requests.keys.operations, 1],
    [list.operations, list.sent],
  ]);
  const activeKeys = keys * assumptions.activeShare;
  const ordersBytes = orders * MEASURED.orderBytes;
  const keysBytes =
    keys * MEASURED.keyBytes + activeKeys * assumptions.usageDays * MEASURED.usageReportBytes;
  const cpuMs = requests.total * MEASURED.requestCpuMs + list.sent * orders * MEASURED.orderCpuMs;
  const logGb = (requests.total * MEASURED.logLineBytes) / GB;

  const peakSecond = (month: number) => (month / MONTH_SECONDS) * peakFactor;
  // The estimate assumes enough isolates that each is busy for at most half of the time.
  const busyIsolates = Math.max(dataCentres * isolates, (2 * peakSecond(cpuMs)) / 1_000);
  const listsAtOnce = (peakSecond(list.sent) * list.downloadSeconds) / busyIsolates;
  const limits = limitUses({
    ordersTime: peakSecond(queryMs(requests.orders) + list.databaseMs) / 1_000,
    keysTime: peakSecond(queryMs(requests.keys)) / 1_000,
    ordersBytes,
    keysBytes,
    segments: segmentCount(orders),
    listBytes: Math.max(1, listsAtOnce) * LIST_BYTES,
  });
  const bill = billFor({
    requests: requests.total,
    cpuMs,
    objectCalls: operations.objectCalls,
    objectGbSeconds: (operations.objectCalls * MEASURED.objectCallMs * OBJECT_GB) / 1_000,
    objectRowsWritten: operations.objectRowsWritten,
    objectGb: (activeKeys * OBJECT_DAYS * MEASURED.objectBytes) / GB,
    rowsRead: operations.rowsRead,
    rowsWritten: operations.rowsWritten,
    databaseGb: (ordersBytes + keysBytes) / GB,
    dataPoints: requests.total,
    logGb,
    logGbMonths: logGb * LOG_MONTHS_KEPT,
  });
  return {
    ...scale,
    requests: requests.total,
    requestsPerSecondAtPeak: peakSecond(requests.total),
    operations,
    limits,
    bill: limits[0].share > 1 ? null : bill,
  };
}

/** Returns the milliseconds for which a database is busy with queries. */
function queryMs({ operations, writes }: DatabaseUse): number {
  return (operations.queries - writes) * MEASURED.readMs + writes * MEASURED.writeMs;
}

function limitUses(used: Readonly<Record<LimitName, number>>): Estimate["limits"] {
  const names = Object.keys(used) as [LimitName, ...LimitName[]];
  const uses = names.map((name) => ({ name, share: used[name] / LIMITS[name].value }));
  return uses.sort((one, other) => other.share - one.share) as [LimitUse, ...LimitUse[]];
}

export type BreakingPoints = ReturnType<typeof breakingPoints>;

/** The largest scale that `breakingPoints` tries. */
export const LARGEST_SCALE = 1e12;

/**
 * Finds the limits that the service exceeds while the number of keys or of orders grows.
 *
 * @param growing the number that grows. The other number stays as in `start`.
 * @returns each limit with the smallest number that exceeds it, in ascending order of this number.
 */
export function breakingPoints(growing: keyof Scale, start: Scale, assumptions: Assumptions) {
  const limitsAt = (scale: number) => estimate({ ...start, [growing]: scale }, assumptions).limits;
  return limitsAt(1)
    .map(({ name }) => ({
      name,
      from: firstBroken((scale) =>
        limitsAt(scale).some((limit) => limit.name === name && limit.share > 1),
      ),
    }))
    .filter(({ from }) => from < LARGEST_SCALE)
    .toSorted((one, other) => one.from - other.from);
}

/**
 * Finds the smallest scale that exceeds a limit, by bisection. The result is at most 1 % too large.
 */
function firstBroken(isBroken: (scale: number) => boolean): number {
  let [intact, broken] = [1, LARGEST_SCALE];
  while (broken / intact > 1.01) {
    const middle = Math.sqrt(intact * broken);
    if (isBroken(middle)) broken = middle;
    else intact = middle;
  }
  return broken;
}
