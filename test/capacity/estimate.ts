import { LIST_SIZES, MEMORY_BYTES } from "../../src/worker/orders/list-sizes.ts";
import { PRICES, type Use } from "../../src/operator/metrics/prices.ts";
import {
  listReads,
  type Operations,
  OPERATIONS,
  SEGMENT_ORDERS,
  segmentCount,
  sumOperations,
} from "../worker/operations/operations.ts";

/** The assumptions about callers and the network, with their meaning. */
export const ASSUMPTIONS = {
  requestsPerKey: [160, "requests a day for each key, unused keys included"],
  activeShare: [0.4, "share of the keys that send a request on a day"],
  peakFactor: [1.6, "requests in the busiest hour, divided by the average hour"],
  cancelShare: [0.05, "share of the admitted requests that cancel an order"],
  conditionalShare: [0.5, "share of the list requests with `If-None-Match`, one second apart"],
  refusedShare: [0.02, "share of the requests that a Durable Object refuses"],
  repeatedShare: [0.12, "share of the requests that an isolate refuses from memory"],
  unauthorizedShare: [0.02, "requests without a valid key, per request with a valid key"],
  lookUpShare: [0.25, "share of the requests for which the isolate looks up the key in D1"],
  changesPerOrder: [0.005, "placements and shipments a day for each stored order"],
  isolates: [200, "isolates that receive requests"],
  usageDays: [365, "days for which usage reports are kept"],
} as const satisfies Readonly<Record<string, readonly [value: number, meaning: string]>>;

/** `test/worker/operations` checks the sizes. Times come from the benchmark or from Cloudflare. */
export const MEASURED = {
  /** The size of an order, a key and a usage report in D1, indexes included. */
  orderBytes: 50,
  keyBytes: 480,
  usageReportBytes: 66,
  /** The storage of a key's Durable Object after a day with requests. */
  objectBytes: 12_288,
  /** The size of an order in the JSON of a list, and in the memory of an isolate. */
  listedOrderBytes: 97,
  keptOrderBytes: 49,
  /** The size of a log line, including the fields that Cloudflare adds. */
  logLineBytes: 1_000,
  /** How long a small query that reads, or a query that writes, keeps the database busy. */
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

const GB = 1e9;
const MONTH_DAYS = 365 / 12;
const MONTH_SECONDS = MONTH_DAYS * 86_400;
const PLAN_DOLLARS = 5;
/** The reports of usage by one key on a day with requests. */
const REPORTS_A_DAY = 5;
/** Cloudflare bills this memory for an active Durable Object. */
const OBJECT_GB = 0.128;

export interface Scale {
  readonly keys: number;
  readonly orders: number;
}

const assumed = (name: keyof typeof ASSUMPTIONS): number => ASSUMPTIONS[name][0];

/** Estimates a month; `limits` holds the used share of each limit in the busiest hour. Ignores queues. */
export function estimate({ keys, orders }: Scale) {
  const keyDays = keys * MONTH_DAYS;
  const withKey = keyDays * assumed("requestsPerKey");
  const total = withKey * (1 + assumed("unauthorizedShare"));
  const admitted = withKey * (1 - assumed("refusedShare") - assumed("repeatedShare"));
  const cancellations = admitted * assumed("cancelShare");
  const lists = admitted - cancellations;
  const placed = orders * assumed("changesPerOrder") * MONTH_DAYS;
  const cancelled = Math.min(cancellations, placed);
  const reports = keyDays * assumed("activeShare") * REPORTS_A_DAY;
  const idle = keyDays * assumed("activeShare") * (1 - assumed("activeShare"));
  const list = listLoad(orders, lists, placed + cancelled);
  const ofOrders = sumOperations([
    [OPERATIONS.unchangedList, lists],
    [OPERATIONS.cancellation, cancelled],
    [OPERATIONS.vainCancellation, cancellations - cancelled],
    [OPERATIONS.refusal, withKey * assumed("refusedShare")],
    [OPERATIONS.orderChange, placed],
  ]);
  const ofKeys = sumOperations([
    [OPERATIONS.keyLookUp, withKey * assumed("lookUpShare")],
    [OPERATIONS.usageReport, reports],
    // The Durable Object of a key deletes its rows if the key is not used on the next day.
    [OPERATIONS.objectEnd, idle],
  ]);
  const operations = sumOperations([
    [ofOrders, 1],
    [ofKeys, 1],
    [list.operations, list.sent],
  ]);
  const queryMs = ({ queries }: Operations, writes: number) =>
    (queries - writes) * MEASURED.readMs + writes * MEASURED.writeMs;
  const busyShare = (databaseMs: number) =>
    (databaseMs / 1_000 / MONTH_SECONDS) * assumed("peakFactor");
  const activeKeys = keys * assumed("activeShare");
  const ordersBytes = orders * MEASURED.orderBytes;
  const usageBytes = activeKeys * assumed("usageDays") * MEASURED.usageReportBytes;
  const keysBytes = keys * MEASURED.keyBytes + usageBytes;
  const logGb = (total * MEASURED.logLineBytes) / GB;
  return {
    requests: total,
    dollars: dollarsFor({
      requests: total,
      cpuMs: total * MEASURED.requestCpuMs + list.sent * orders * MEASURED.orderCpuMs,
      objectCalls: operations.objectCalls,
      objectGbSeconds: (operations.objectCalls * MEASURED.objectCallMs * OBJECT_GB) / 1_000,
      objectRowsWritten: operations.objectRowsWritten,
      // A key that is used on one day only stores rows for two days.
      objectGb: (activeKeys * 2 * MEASURED.objectBytes) / GB,
      rowsRead: operations.rowsRead,
      rowsWritten: operations.rowsWritten,
      databaseGb: (ordersBytes + keysBytes) / GB,
      dataPoints: total,
      logGb,
      // Workers Logs keeps a line for a week.
      logGbMonths: (logGb * 7) / MONTH_DAYS,
    }),
    limits: {
      "the orders database's time": busyShare(
        queryMs(ofOrders, placed + cancelled) + list.databaseMs,
      ),
      "the keys database's time": busyShare(queryMs(ofKeys, reports)),
      "10 GB in the orders database": ordersBytes / (10 * GB),
      "10 GB in the keys database": keysBytes / (10 * GB),
      "the largest list": segmentCount(orders) / LIST_SIZES.maxSegments,
    },
  };
}

/**
 * Estimates a month's lists, beyond the operations of `unchangedList`. Assumes that lists and
 * changes are independent events, and that a change affects each segment with the same probability.
 */
function listLoad(orders: number, lists: number, changesInMonth: number) {
  const segments = segmentCount(orders);
  const changes = changesInMonth / MONTH_SECONDS;
  const sent = lists * (1 - assumed("conditionalShare") / (1 + changes));
  const inIsolate = sent / MONTH_SECONDS / assumed("isolates");
  const unchangedShare = (changesASecond: number) => inIsolate / (inIsolate + changesASecond);
  const manifestShare = 1 - unchangedShare(changes);
  const keptShare = Math.min(1, MEMORY_BYTES / (orders * MEASURED.keptOrderBytes));
  const segmentsRead = segments * (1 - keptShare * unchangedShare(changes / segments));
  const ordersPerSegment = orders / segments;
  return {
    sent,
    operations: listReads({ manifestShare, segments, segmentsRead, ordersPerSegment }),
    databaseMs:
      sent * manifestShare * segments * MEASURED.manifestMsPerSegment +
      sent * segmentsRead * (ordersPerSegment / SEGMENT_ORDERS) * MEASURED.segmentReadMs,
  };
}

/**
 * Calculates the bill of a month, with the price of the plan. Cloudflare rounds up the use of
 * Durable Objects (https://github.com/cloudflare/cloudflare-docs/pull/32525).
 */
function dollarsFor(use: Use): number {
  return (Object.keys(use) as (keyof Use)[]).reduce((sum, item) => {
    const { dollars, per, included } = PRICES[item];
    const units = Math.max(0, use[item] - included) / per;
    return sum + (item.startsWith("object") ? Math.ceil(units) : units) * dollars;
  }, PLAN_DOLLARS);
}
