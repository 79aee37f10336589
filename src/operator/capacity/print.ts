import type { BreakingPoints, Estimate } from "./estimate.ts";
import { LIMITS } from "./limits.ts";
import {
  listReads,
  OPERATION_NAMES,
  OPERATIONS,
  type Operations,
  segmentCount,
  sumOperations,
} from "./operations.ts";
import { LOOKED_UP, PRICE_SOURCES, PRICES } from "./prices.ts";
import type { Scale } from "./requests.ts";
import { count, dollars, table, times } from "./table.ts";

/** The estimates of `npm run capacity`. */
interface CapacityReport {
  readonly scales: readonly Estimate[];
  /** The scale at which the search for limits starts, for growing keys and for growing orders. */
  readonly smallest: Scale;
  readonly asKeysGrow: BreakingPoints;
  readonly asOrdersGrow: BreakingPoints;
}

/** Prints the report as text. */
export function printReport({ scales, smallest, asKeysGrow, asOrdersGrow }: CapacityReport): void {
  const parts = [
    requestTable(),
    monthTable(scales),
    breakingTable(`As keys grow, with ${count(smallest.orders)} orders`, "keys", asKeysGrow),
    breakingTable(`As orders grow, with ${count(smallest.keys)} keys`, "orders", asOrdersGrow),
    ...remedies([...asKeysGrow, ...asOrdersGrow]),
    priceTable(),
  ];
  process.stdout.write(`${parts.join("\n\n")}\n`);
}

const LISTED_ORDERS = 1e6;

function requestTable(): string {
  const segments = segmentCount(LISTED_ORDERS);
  const store = { manifestShare: 1, segments, ordersPerSegment: LISTED_ORDERS / segments };
  const list = (segmentsRead: number) =>
    sumOperations([
      [OPERATIONS.unchangedList, 1],
      [listReads({ ...store, segmentsRead }), 1],
    ]);
  const kinds: readonly (readonly [kind: string, operations: Operations])[] = [
    ["unchanged list, 304", OPERATIONS.unchangedList],
    ["  32 at once on one key", OPERATIONS.groupedList],
    ["list after one change *", list(1)],
    ["  without any cache *", list(segments)],
    ["cancel", OPERATIONS.cancellation],
    ["  404, 409", OPERATIONS.vainCancellation],
    ["401", OPERATIONS.unauthorized],
    ["429 by the object", OPERATIONS.refusal],
    ["429 from memory, banned", OPERATIONS.repeatedRefusal],
  ];
  return table(
    `A request, beyond the Worker's own (* in a store of ${count(LISTED_ORDERS)} orders)`,
    ["<request", "object calls", "object rows", "queries", "rows read", "written", "$ a million"],
    kinds.map(([kind, operations]) => [
      kind,
      ...OPERATION_NAMES.map((name) => count(operations[name])),
      dollars(dollarsPerMillion(operations)),
    ]),
    { optional: ["$ a million", "object calls", "rows read", "written", "queries", "object rows"] },
  );
}

function dollarsPerMillion(operations: Operations): number {
  const billed = ["objectCalls", "objectRowsWritten", "rowsRead", "rowsWritten"] as const;
  return billed.reduce((sum, item) => sum + operations[item] * PRICES[item].dollars, 0);
}

function monthTable(scales: readonly Estimate[]): string {
  return table(
    "A month",
    ["keys", "orders", "requests", "at peak", "D1 rows", "dollars", "used", "<of the first limit"],
    scales.map(({ limits: [first], ...month }) => [
      count(month.keys),
      count(month.orders),
      count(month.requests),
      `${count(month.requestsPerSecondAtPeak)}/s`,
      count(month.operations.rowsRead),
      month.bill === null ? "not possible" : dollars(month.bill.total),
      times(first.share),
      LIMITS[first.name].title,
    ]),
    { optional: ["D1 rows", "at peak"] },
  );
}

function breakingTable(title: string, growing: string, points: BreakingPoints): string {
  const rows = points.map(({ name, from }) => [count(from), LIMITS[name].title]);
  return table(title, [`from ${growing}`, "<not enough"], rows);
}

function remedies(points: BreakingPoints): string[] {
  return [...new Set(points.map(({ name }) => LIMITS[name]))].map((limit) =>
    [`What to do before ${limit.title} is not enough`, ...limit.remedies].join("\n  - "),
  );
}

function priceTable(): string {
  const limitSources = Object.values(LIMITS).map(({ source }) => source);
  const addresses = new Set([...PRICE_SOURCES, ...limitSources]);
  const prices = table(
    "Prices of the Workers Paid plan",
    ["<item", "price", "included a month", "<billed"],
    Object.values(PRICES).map(({ title, dollars: price, per, unit, included, isRoundedUp }) => [
      title,
      `$${price} for ${count(per)} ${unit}`,
      count(included),
      isRoundedUp ? "rounded up" : "in proportion",
    ]),
  );
  return `${prices}\n\n${[`Prices and limits, as of ${LOOKED_UP}, from`, ...addresses].join("\n  ")}`;
}
