import { PLATFORM_LIMITS } from "../platform-limits.ts";
import { BILLED_ITEMS, PLAN_DOLLARS, PRICES } from "../prices.ts";
import type { CapacityReport } from "../report.ts";
import { bytes, count, dollars, percent, seconds, times } from "./figures.ts";
import { titledTable } from "./titled-table.ts";

/** What a month uses and costs at each scale, and what its lists are like. */
export function monthTables(report: CapacityReport): string[] {
  return [monthTable(report), billTable(report), listTable(report)];
}

function monthTable({ scales }: CapacityReport): string {
  const rows = scales.map((month) => {
    const { requests, operations, bill, limits } = month;
    const [first] = limits;
    return [
      count(month.keys),
      count(month.orders),
      count(requests.total),
      `${count(requests.perSecondAtPeak)}/s`,
      count(operations.objectCalls),
      count(operations.objectRowsWritten),
      count(operations.rowsRead),
      count(operations.rowsWritten),
      bytes(month.bytes.inDatabase),
      bytes(month.bytes.inObjects),
      bytes(month.bytes.sent),
      dollars(bill.total),
      first === undefined ? "" : `${times(first.share)} ${PLATFORM_LIMITS[first.name].title}`,
    ];
  });
  return titledTable(
    "A month",
    [
      "keys",
      "orders",
      "requests",
      "at the peak",
      "object calls",
      "object rows",
      "D1 rows read",
      "D1 rows written",
      "D1 holds",
      "objects hold",
      "sent",
      "$ a month",
      ["of the limit used most", "left"],
    ],
    rows,
    "Beyond 100 % of a limit the service does not do this as it is: the figures are what it would take.",
  );
}

function billTable({ scales }: CapacityReport): string {
  const rows = scales.map(({ keys, orders, bill }) => [
    count(keys),
    count(orders),
    ...BILLED_ITEMS.map((item) => dollars(bill.items[item])),
    dollars(bill.total),
  ]);
  return titledTable(
    "Dollars a month",
    ["keys", "orders", ...BILLED_ITEMS.map((item) => PRICES[item].short), "total"],
    rows,
    `Beyond what the Workers Paid plan includes; its ${dollars(PLAN_DOLLARS)} are in the total.`,
  );
}

function listTable({ scales, smallest }: CapacityReport): string {
  const ofFewKeys = scales.filter(({ keys }) => keys === smallest.keys);
  const rows = ofFewKeys.map(({ orders, list, requests }) => [
    count(orders),
    bytes(list.bytes),
    count(list.pages),
    seconds(list.readSeconds),
    seconds(list.clientSeconds),
    list.changesPerSecond === 0 ? "never" : `every ${seconds(1 / list.changesPerSecond)}`,
    percent(list.notModified / requests.lists),
    percent(list.kept / requests.lists),
    percent(list.read / requests.lists),
  ]);
  return titledTable(
    `The list, with ${count(smallest.keys)} keys`,
    [
      "orders",
      "JSON text",
      "D1 queries",
      "read in",
      "taken in by a client in",
      "changes",
      "answered 304",
      "from memory or cache",
      "from D1",
    ],
    rows,
  );
}
