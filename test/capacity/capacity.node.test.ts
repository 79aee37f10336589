import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { PRICES } from "../../src/operator/metrics/prices.ts";
import {
  listReads,
  OPERATIONS,
  type Operations,
  segmentCount,
  sumOperations,
} from "../worker/operations/operations.ts";
import { ASSUMPTIONS, estimate, type Scale } from "./estimate.ts";

const page = readFileSync("docs/capacity.md", "utf8");

const KEYS = [1e3, 1e4, 1e5];
const ORDERS = [1e4, 1e5, 1e6, 1e7];
const LISTED = 1e6;
const SMALLEST: Scale = { keys: 1e3, orders: 1e4 };

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const dollars = (value: number) => `$${value < 10 ? value.toFixed(2) : compact.format(value)}`;

function firstLimit(scale: Scale): [name: string, share: number] {
  const [first = ["", 0]] = Object.entries(estimate(scale).limits).toSorted(
    ([, one], [, other]) => other - one,
  );
  return first;
}

/** Returns the number of keys or orders that exceeds a limit, as a power of 1.01; a dash if none. */
function exceededFrom(limit: string, growing: keyof Scale): string {
  for (let from = 1; from < 1e9; from *= 1.01) {
    const { limits } = estimate({ ...SMALLEST, [growing]: from });
    if (limits[limit as keyof typeof limits] > 1) return compact.format(from);
  }
  return "–";
}

function requestRows(): string[][] {
  const segments = segmentCount(LISTED);
  const store = { manifestShare: 1, segments, ordersPerSegment: LISTED / segments };
  const unchanged = [OPERATIONS.unchangedList, 1] as const;
  const list = (segmentsRead: number) =>
    sumOperations([unchanged, [listReads({ ...store, segmentsRead }), 1]]);
  const kinds: [string, Operations][] = [
    ["list in the isolate's memory, 304", OPERATIONS.unchangedList],
    ["the same, 32 at once with one key", OPERATIONS.groupedList],
    ["list of a million orders after one change", list(1)],
    ["list of a million orders, nothing in memory", list(segments)],
    ["cancellation", OPERATIONS.cancellation],
    ["cancellation with 404 or 409", OPERATIONS.vainCancellation],
    ["401", OPERATIONS.unauthorized],
    ["429 by the Durable Object", OPERATIONS.refusal],
    ["429 from memory", OPERATIONS.repeatedRefusal],
  ];
  const billed = ["objectCalls", "objectRowsWritten", "rowsRead", "rowsWritten"] as const;
  return kinds.map(([kind, operations]) => [
    kind,
    ...billed.map((name) => compact.format(operations[name])),
    dollars(billed.reduce((sum, name) => sum + operations[name] * PRICES[name].dollars, 0)),
  ]);
}

function monthRows(): string[][] {
  return KEYS.flatMap((keys) =>
    ORDERS.map((orders) => {
      const month = estimate({ keys, orders });
      const [limit, share] = firstLimit({ keys, orders });
      return [
        compact.format(keys),
        compact.format(orders),
        compact.format(month.requests),
        share > 1 ? "not possible" : dollars(month.dollars),
        share > 1 ? "exceeded" : `${Math.round(share * 100)} %`,
        limit,
      ];
    }),
  );
}

function limitRows(): string[][] {
  return Object.keys(estimate(SMALLEST).limits).map((limit) => [
    limit,
    exceededFrom(limit, "keys"),
    exceededFrom(limit, "orders"),
  ]);
}

it.each([
  ["requests", requestRows()],
  ["months", monthRows()],
  ["limits", limitRows()],
  ["assumptions", Object.values(ASSUMPTIONS).map(([value, what]) => [what, String(value)])],
])("docs/capacity.md has the computed table of %s", (_, rows) => {
  const lines = page.split("\n").map((line) => line.replaceAll(/ +/g, " "));
  const printed = rows.map((cells) => `| ${cells.join(" | ")} |`);
  const start = lines.indexOf(printed[0] ?? "");
  expect(lines.slice(start, start + printed.length)).toStrictEqual(printed);
  expect(lines[start + printed.length]).toBe("");
});
