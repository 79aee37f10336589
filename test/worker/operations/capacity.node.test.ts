import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { PRICES, type Use } from "../../../src/operator/metrics/prices.ts";
import { LIST_SIZES } from "../../../src/worker/orders/list-sizes.ts";
import {
  listReads,
  MEASURED,
  OPERATIONS,
  type Operations,
  SEGMENT_ORDERS,
  segmentCount,
  sumOperations,
} from "./operations.ts";

const page = readFileSync("docs/capacity.md", "utf8");

const GB = 1e9;
const LISTED = 1e6;
const PLAN_DOLLARS = 5;
/** Cloudflare bills this memory for an active Durable Object. */
const OBJECT_GB = 0.128;
/** Workers Logs keeps a line for a week. */
const LOG_MONTHS = 7 / (365 / 12);

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const dollars = (value: number) => `$${value < 10 ? value.toFixed(2) : compact.format(value)}`;

/** The operations of a list request that reads `segmentsRead` segments, with the rest in memory. */
function listOf(orders: number, segmentsRead: number): Operations {
  const segments = segmentCount(orders);
  const reads = listReads({ segments, segmentsRead, ordersPerSegment: orders / segments });
  return sumOperations([
    [OPERATIONS.unchangedList, 1],
    [reads, 1],
  ]);
}

/** Returns how long the list request of `listOf` keeps the database busy, in milliseconds. */
function busyMs(orders: number, segmentsRead: number): number {
  const segments = segmentCount(orders);
  const share = orders / segments / SEGMENT_ORDERS;
  return (
    MEASURED.readMs +
    segments * MEASURED.manifestMsPerSegment +
    segmentsRead * share * MEASURED.segmentReadMs
  );
}

function requestRows(): string[][] {
  const kinds: [string, Operations][] = [
    ["list in the isolate's memory, 304", OPERATIONS.unchangedList],
    ["the same, 32 at once with one key", OPERATIONS.groupedList],
    ["list of a million orders after one change", listOf(LISTED, 1)],
    ["list of a million orders, nothing in memory", listOf(LISTED, segmentCount(LISTED))],
    ["cancellation", OPERATIONS.cancellation],
    ["cancellation with 404 or 409", OPERATIONS.vainCancellation],
    ["401", OPERATIONS.unauthorized],
    ["429 by the Durable Object", OPERATIONS.refusal],
    ["429 from memory", OPERATIONS.repeatedRefusal],
    ["a key that the isolate does not remember, in addition", OPERATIONS.keyLookUp],
    ["report of a key's usage", OPERATIONS.usageReport],
    ["order that is placed or shipped", OPERATIONS.orderChange],
  ];
  const billed = ["objectCalls", "objectRowsWritten", "rowsRead", "rowsWritten"] as const;
  return kinds.map(([kind, operations]) => [
    kind,
    ...billed.map((name) => compact.format(operations[name])),
    dollars(billed.reduce((sum, name) => sum + operations[name] * PRICES[name].dollars, 0)),
  ]);
}

/** Returns the bill of a month with only these requests, including the price of the plan. */
function dollarsOfMonth(requests: number, operations: Operations, listedOrders: number): number {
  const { objectCalls, objectRowsWritten, rowsRead, rowsWritten } = operations;
  const logGb = MEASURED.logLineBytes / GB;
  const use: Partial<Use> = {
    requests: 1,
    cpuMs: MEASURED.requestCpuMs + listedOrders * MEASURED.orderCpuMs,
    objectCalls,
    objectGbSeconds: (objectCalls * MEASURED.objectCallMs * OBJECT_GB) / 1_000,
    objectRowsWritten,
    rowsRead,
    rowsWritten,
    dataPoints: 1,
    logGb,
    logGbMonths: logGb * LOG_MONTHS,
  };
  return Object.entries(use).reduce((sum, [item, ofRequest]) => {
    const price = PRICES[item as keyof Use];
    const units = Math.max(0, requests * ofRequest - price.included) / price.per;
    return sum + units * price.dollars;
  }, PLAN_DOLLARS);
}

function monthRows(): string[][] {
  return [1e6, 1e7, 1e8].flatMap((requests) =>
    [1e4, 1e5, 1e6].map((orders) => [
      compact.format(requests),
      compact.format(orders),
      dollars(dollarsOfMonth(requests, OPERATIONS.unchangedList, 0)),
      dollars(dollarsOfMonth(requests, listOf(orders, 1), orders)),
      dollars(dollarsOfMonth(requests, listOf(orders, segmentCount(orders)), orders)),
    ]),
  );
}

function limitRows(): string[][] {
  const { readMs, writeMs, orderBytes, keyBytes, usageReportBytes } = MEASURED;
  const limits: [limit: string, work: string, most: number][] = [
    ["the orders database's time", "unchanged lists a second", 1_000 / readMs],
    ["", "lists of a million orders after one change, a second", 1_000 / busyMs(LISTED, 1)],
    [
      "",
      "lists of a million orders, nothing in memory, a second",
      1_000 / busyMs(LISTED, segmentCount(LISTED)),
    ],
    ["", "cancellations a second", 1_000 / writeMs],
    ["the keys database's time", "look-ups of keys a second", 1_000 / readMs],
    ["", "reports of usage a second", 1_000 / writeMs],
    ["10 GB in the orders database", "orders", (10 * GB) / orderBytes],
    ["10 GB in the keys database", "keys", (10 * GB) / keyBytes],
    ["", "days on which a key was used", (10 * GB) / usageReportBytes],
    ["the largest list", "orders", LIST_SIZES.maxSegments * SEGMENT_ORDERS],
  ];
  return limits.map(([limit, work, most]) => [limit, work, compact.format(most)]);
}

it.each([
  ["requests", requestRows()],
  ["months", monthRows()],
  ["limits", limitRows()],
])("docs/capacity.md has the computed table of %s", (_, rows) => {
  const lines = page.split("\n").map((line) => line.replaceAll(/ +/g, " "));
  const printed = rows.map((cells) => `| ${cells.join(" | ")} |`.replaceAll(/ +/g, " "));
  const start = lines.indexOf(printed[0] ?? "");
  expect(lines.slice(start, start + printed.length)).toStrictEqual(printed);
  expect(lines[start + printed.length]).toBe("");
});
