import { LIST_PAGE_ORDERS, OBJECT_BYTES } from "../operations.ts";
import { PLATFORM_LIMITS, type PlatformLimit } from "../platform-limits.ts";
import { LOOKED_UP, type Price, PRICES } from "../prices.ts";
import type { CapacityReport } from "../report.ts";
import { bytes, count } from "./figures.ts";
import { titledTable } from "./titled-table.ts";

const NOW = "now, on this machine";
const TESTED = "test/capacity, in workerd";

/** Where each figure comes from. */
export function sourceTables(report: CapacityReport): string[] {
  return [measuredTable(report), priceTable(), limitTable()];
}

function measuredTable({ measured }: CapacityReport): string {
  return titledTable(
    "Measured",
    [["what", "left"], "", ["where", "left"]],
    [
      ["an order in D1", bytes(measured.orderBytes), NOW],
      ["a key in D1, with the record of its creation", bytes(measured.keyBytes), NOW],
      ["a key's usage on one day, in D1", bytes(measured.usageBytes), NOW],
      ["an order in a list", bytes(measured.listedOrderBytes), NOW],
      [
        `the database's time for a page of ${count(LIST_PAGE_ORDERS)} orders`,
        `${measured.pageReadMs.toFixed(1)} ms`,
        NOW,
      ],
      [
        "the Worker's processor time for a million orders",
        `${count(measured.orderCpuMs * 1e6)} ms`,
        NOW,
      ],
      ["a key's object on disk", bytes(OBJECT_BYTES), TESTED],
      ["calls, queries and rows of each request", "", TESTED],
    ],
  );
}

function priceTable(): string {
  const prices: readonly Price[] = Object.values(PRICES);
  return titledTable(
    `Prices of the Workers Paid plan, looked up on ${LOOKED_UP}`,
    [["item", "left"], "price", "included a month", ["source", "left"]],
    prices.map(({ title, dollars, per, unit, included, source, note }) => [
      title,
      `$${dollars} for ${count(per)} ${unit}`,
      count(included),
      withNote(source, note),
    ]),
  );
}

function limitTable(): string {
  const limits: readonly PlatformLimit[] = Object.values(PLATFORM_LIMITS);
  return titledTable(
    `Limits of the platform, looked up on ${LOOKED_UP}`,
    [["limit", "left"], "", ["source", "left"]],
    limits.map(({ title, limit, unit, source, note }) => [
      title,
      unit === "bytes" ? bytes(limit) : `${count(limit)} ${unit}`,
      withNote(source, note),
    ]),
  );
}

function withNote(source: string, note: string | undefined): string {
  return note === undefined ? source : `${source} (${note})`;
}
