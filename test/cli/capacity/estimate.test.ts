import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Assumptions } from "../../../src/cli/capacity/assumptions.ts";
import { breakingPoints } from "../../../src/cli/capacity/breaking-points.ts";
import { MONTH_DAYS } from "../../../src/cli/capacity/basis.ts";
import { estimate, type Estimate } from "../../../src/cli/capacity/estimate.ts";
import { LIST_PAGE_ORDERS } from "../../../src/cli/capacity/operations.ts";
import { PLATFORM_LIMITS } from "../../../src/cli/capacity/platform-limits.ts";
import { BILLED_ITEMS } from "../../../src/cli/capacity/prices.ts";
import { simulateTraffic } from "../../../src/cli/capacity/traffic/traffic.ts";
import { smallSample } from "./small-sample.ts";

const MEASURED = {
  orderBytes: 50,
  keyBytes: 480,
  usageBytes: 70,
  listedOrderBytes: 100,
  pageReadMs: 5,
  orderCpuMs: 0.0002,
};
const ASSUMPTIONS = smallSample();
const TRAFFIC = simulateTraffic(ASSUMPTIONS);

function estimateFor(keys: number, orders: number, changed: Partial<Assumptions> = {}): Estimate {
  const assumptions = { ...ASSUMPTIONS, ...changed };
  return estimate({ keys, orders }, { traffic: TRAFFIC, measured: MEASURED, assumptions });
}

const share = (month: Estimate, name: keyof typeof PLATFORM_LIMITS) =>
  month.limits.find((limit) => limit.name === name)!.share;

const count = (most: number) =>
  fc.double({ min: 0, max: Math.log10(most), noNaN: true }).map((power) => 10 ** power);

describe("a month", () => {
  test("adds up", () => {
    fc.assert(
      fc.property(count(1e8), count(1e9), (keys, orders) => {
        const { requests, list, use, operations, bill, limits } = estimateFor(keys, orders);
        const { lists, cancellations, refusedByObject, refusedFromMemory, unauthorized } = requests;
        const parts = [lists, cancellations, refusedByObject, refusedFromMemory, unauthorized];
        expectClose(
          requests.total,
          parts.reduce((sum, part) => sum + part, 0),
        );
        expectClose(lists, list.notModified + list.kept + list.read);
        expect(requests.cancelled).toBeLessThanOrEqual(cancellations);
        expect(requests.cancelled).toBeLessThanOrEqual(requests.ordersPlaced);
        expect(operations.objectCalls).toBeGreaterThanOrEqual(lists + cancellations);
        expect(operations.queries).toBeGreaterThanOrEqual(lists + cancellations);
        for (const item of BILLED_ITEMS) {
          expect(use[item]).toBeGreaterThanOrEqual(0);
          expect(bill.items[item]).toBeGreaterThanOrEqual(0);
        }
        const shares = limits.map((limit) => limit.share);
        expect(shares).toEqual(shares.toSorted((one, other) => other - one));
      }),
    );
  });

  test("never costs less, and never uses less of a limit, with more keys", () => {
    fc.assert(
      fc.property(count(1e8), count(1e9), count(100), (keys, orders, factor) => {
        const less = estimateFor(keys, orders);
        const more = estimateFor(keys * factor, orders);
        expectNotLess(more.bill.total, less.bill.total);
        expectNotLess(more.use.rowsWritten, less.use.rowsWritten);
        expectNotLess(more.bytes.inDatabase, less.bytes.inDatabase);
        expectNotLess(share(more, "databaseTime"), share(less, "databaseTime"));
      }),
    );
  });

  test("never sends, reads or stores less with more orders", () => {
    fc.assert(
      fc.property(count(1e7), count(1e8), count(100), (keys, orders, factor) => {
        const less = estimateFor(keys, orders);
        const more = estimateFor(keys, orders * factor);
        expectNotLess(more.bytes.sent, less.bytes.sent);
        expectNotLess(more.bytes.inDatabase, less.bytes.inDatabase);
        expectNotLess(more.list.readSeconds, less.list.readSeconds);
        expect(more.list.notModified).toBeLessThanOrEqual(less.list.notModified * 1.000001);
      }),
    );
  });

  test("grows tenfold with ten times the keys, but for what the plan includes", () => {
    const [less, more] = [estimateFor(1e4, 1e4), estimateFor(1e5, 1e4)];
    expectClose(more.requests.total, less.requests.total * 10);
    expectClose(more.use.objectRowsWritten, less.use.objectRowsWritten * 10);
    expect(more.bill.total).toBeGreaterThan(less.bill.total * 10);
  });
});

describe("a list", () => {
  test("that never changes is read from the database hardly ever", () => {
    const { requests, list } = estimateFor(1e4, 1e5, { orderChangesPerDay: 0 });
    expect(list.read / requests.lists).toBeLessThan(1e-6);
    expectClose(list.notModified, TRAFFIC.conditionalLists.total * 1e4 * MONTH_DAYS);
  });

  test("that changes all the time is read for everyone", () => {
    const { requests, list } = estimateFor(1e3, 1e6, { orderChangesPerDay: 86_400 });
    expect(list.read / requests.lists).toBeGreaterThan(0.99);
    expect(list.notModified / requests.lists).toBeLessThan(0.001);
  });

  test("is read twice, page by page, where it is read", () => {
    const { list } = estimateFor(1e3, LIST_PAGE_ORDERS * 10);
    expect(list.pages).toBe(10);
    expect(list.pagesRead).toBeGreaterThanOrEqual(list.read * 20);
    expect(list.ordersRead).toBeGreaterThanOrEqual(list.read * 2 * LIST_PAGE_ORDERS * 10);
  });

  test("of more than the cache takes is never kept", () => {
    const most = PLATFORM_LIMITS.cacheEntryBytes.limit / MEASURED.listedOrderBytes;
    const still = { orderChangesPerDay: 1e-6 };
    expect(estimateFor(1e5, most * 0.99, still).list.kept).toBeGreaterThan(0);
    expect(estimateFor(1e5, most * 1.01, still).list.kept).toBe(0);
  });
});

describe("the limits that break", () => {
  const basis = { traffic: TRAFFIC, measured: MEASURED, assumptions: ASSUMPTIONS };

  test.for(["keys", "orders"] as const)("as %s grow: where they are reached", (growing) => {
    const start = { keys: 1e3, orders: 1e4 };
    const points = breakingPoints(growing, start, basis);
    expect(points.length).toBeGreaterThan(1);
    for (const { name, from } of points) {
      const shareAt = (value: number) =>
        share(estimate({ ...start, [growing]: value }, basis), name);
      expect(shareAt(from)).toBeGreaterThan(1);
      expect(shareAt(from * 0.98)).toBeLessThanOrEqual(1);
    }
    const values = points.map(({ from }) => from);
    expect(values).toEqual(values.toSorted((one, other) => one - other));
  });

  test("are those that were worked out by hand", () => {
    const points = breakingPoints("orders", { keys: 1e3, orders: 1e4 }, basis);
    const from = (name: string) => points.find((point) => point.name === name)!.from;
    // Keys and usage take some megabytes.
    expect(from("databaseBytes")).toBeCloseTo(10e9 / 50, -7);
    expect(from("cacheEntryBytes") / (512e6 / 100)).toBeCloseTo(1, 1);
    // Two readings of 500 pages each would be one query too many.
    expect(from("queriesPerRequest") / (499 * LIST_PAGE_ORDERS)).toBeCloseTo(1, 1);
    expect(from("requestCpuMs") / (30_000 / 2 / 0.0002)).toBeCloseTo(1, 1);
    expect(from("afterAnswerSeconds") / ((30 / 0.025) * LIST_PAGE_ORDERS)).toBeCloseTo(1, 1);
  });
});

function expectClose(value: number, expected: number): void {
  expect(Math.abs(value - expected)).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(expected)));
}

function expectNotLess(value: number, least: number): void {
  expect(value).toBeGreaterThanOrEqual(least * (1 - 1e-9));
}
