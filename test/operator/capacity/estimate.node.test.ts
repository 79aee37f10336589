import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ASSUMPTIONS, type Assumptions } from "../../../src/operator/capacity/assumptions.ts";
import { breakingPoints, estimate } from "../../../src/operator/capacity/estimate.ts";
import { LIMITS } from "../../../src/operator/capacity/limits.ts";
import { OPERATIONS } from "../../../src/operator/capacity/operations.ts";
import { billFor, PLAN_DOLLARS, PRICES, type Use } from "../../../src/operator/capacity/prices.ts";

const DEFAULTS = Object.fromEntries(
  Object.entries(ASSUMPTIONS).map(([name, [value]]) => [name, value]),
) as Assumptions;

const month = (keys: number, orders: number, assumptions: Partial<Assumptions> = {}) =>
  estimate({ keys, orders }, { ...DEFAULTS, ...assumptions });

const scale = (most: number) =>
  fc.double({ min: 0, max: Math.log10(most), noNaN: true }).map((power) => 10 ** power);

const ROUNDING_ERROR = 1 + 1e-9;

describe("a month", () => {
  test("never costs or uses less with more keys or orders", () => {
    fc.assert(
      fc.property(scale(1e8), scale(1e9), scale(100), scale(100), (keys, orders, more, most) => {
        const small = month(keys, orders);
        const large = month(keys * more, orders * most);
        for (const { name, share } of small.limits) {
          const used = large.limits.find((limit) => limit.name === name)!.share;
          expect(used * ROUNDING_ERROR, name).toBeGreaterThanOrEqual(share);
        }
        if (small.bill === null || large.bill === null) return;
        expect(large.bill.total * ROUNDING_ERROR).toBeGreaterThanOrEqual(small.bill.total);
      }),
    );
  });

  test("has a price unless the use exceeds a limit", () => {
    fc.assert(
      fc.property(scale(1e8), scale(1e9), (keys, orders) => {
        const { bill, limits } = month(keys, orders);
        expect(bill === null).toBe(limits.some(({ share }) => share > 1));
      }),
    );
  });

  test("matches a manual calculation for one key that only cancels missing orders", () => {
    const { operations, requests } = month(1, 1, {
      requestsPerKey: 100,
      activeShare: 0,
      cancelShare: 1,
      refusedShare: 0,
      repeatedShare: 0,
      unauthorizedShare: 0,
      lookUpShare: 0,
      changesPerOrder: 0,
    });
    const { vainCancellation } = OPERATIONS;
    expect(requests).toBeCloseTo(100 * (365 / 12));
    expect(operations.rowsRead).toBeCloseTo(requests * vainCancellation.rowsRead);
    expect(operations.objectCalls).toBeCloseTo(requests * vainCancellation.objectCalls);
    expect(operations.rowsWritten).toBe(0);
  });
});

describe("lists", () => {
  const ORDERS = 1e6;
  /** Assumptions under which only list requests read rows of the database. */
  const LISTS_ALONE = {
    activeShare: 0,
    cancelShare: 0,
    refusedShare: 0,
    unauthorizedShare: 0,
    lookUpShare: 0,
    conditionalShare: 0,
  };

  test("read one row each in a store that never changes", () => {
    const { operations, requests } = month(1_000, ORDERS, { ...LISTS_ALONE, changesPerOrder: 0 });
    expect(operations.rowsRead).toBeCloseTo(0.88 * requests);
  });

  test("read the whole store each time if every order changes each second", () => {
    const { operations, requests } = month(1_000, ORDERS, {
      ...LISTS_ALONE,
      changesPerOrder: 86_400,
    });
    expect(operations.rowsRead / requests).toBeGreaterThan(0.85 * ORDERS);
  });

  test("read the manifest and one segment after a change", () => {
    // One isolate receives a request every second, and an order changes every ten seconds.
    const { operations, requests } = month(1, ORDERS, {
      ...LISTS_ALONE,
      requestsPerKey: 86_400,
      changesPerOrder: 8_640 / ORDERS,
      dataCentres: 1,
      isolates: 1,
    });
    const rowsOfList = operations.rowsRead - requests - placedRows(requests);
    expect(rowsOfList / (requests / 10)).toBeLessThan(8_192 + 123 * 12 + 50);
  });

  const placedRows = (requests: number) => (requests / 10) * OPERATIONS.orderChange.rowsRead;
});

describe("a bill", () => {
  const useOf = (item: keyof Use, value: number): Use => ({
    ...(Object.fromEntries(Object.keys(PRICES).map((name) => [name, 0])) as Use),
    [item]: value,
  });

  test.for([
    ["requests", 10e6, 0],
    ["requests", 10.5e6, 0.15],
    ["objectCalls", 1e6, 0],
    ["objectCalls", 1e6 + 1, 0.15],
    ["objectCalls", 2.5e6, 0.3],
    ["objectGbSeconds", 552_960, 12.5],
    ["rowsRead", 25e9 + 1e9, 1],
  ] as const)("%s: a use of %d costs $%d in addition to the plan", ([item, used, dollars]) => {
    const { items, total } = billFor(useOf(item, used));
    expect(items[item]).toBeCloseTo(dollars);
    expect(total).toBeCloseTo(PLAN_DOLLARS + dollars);
  });
});

describe("the limits that a growing service exceeds", () => {
  const START = { keys: 1e3, orders: 1e4 };

  test("are counted for each database separately", () => {
    const usedWith = (assumptions: Partial<Assumptions>) =>
      Object.fromEntries(
        month(1e5, 1e4, assumptions).limits.map(({ name, share }) => [name, share]),
      );
    const [few, many] = [usedWith({ lookUpShare: 0.1 }), usedWith({ lookUpShare: 0.2 })];
    const lookUps = ((1e5 * 160 * 0.1) / 86_400) * DEFAULTS.peakFactor;
    expect(many["keysTime"]! - few["keysTime"]!).toBeCloseTo(lookUps / 1_000);
    expect(many["ordersTime"]).toBe(few["ordersTime"]);
    const keysOnly = usedWith({ usageDays: 2 * DEFAULTS.usageDays });
    expect(keysOnly["keysBytes"]).toBeGreaterThan(1.5 * many["keysBytes"]!);
    expect(keysOnly["ordersBytes"]).toBe(many["ordersBytes"]);
  });

  test.for(["keys", "orders"] as const)(
    "as %s grow, are exceeded exactly from the given scale",
    (growing) => {
      const points = breakingPoints(growing, START, DEFAULTS);
      expect(points.length).toBeGreaterThan(1);
      for (const { name, from } of points) {
        const shareAt = (value: number) =>
          estimate({ ...START, [growing]: value }, DEFAULTS).limits.find(
            (limit) => limit.name === name,
          )!.share;
        expect(shareAt(from)).toBeGreaterThan(1);
        expect(shareAt(from * 0.98)).toBeLessThanOrEqual(1);
      }
      const values = points.map(({ from }) => from);
      expect(values).toEqual(values.toSorted((one, other) => one - other));
    },
  );

  test("allow ten million orders with 1,000 keys", () => {
    const [first] = breakingPoints("orders", START, DEFAULTS);
    expect(first?.from).toBeGreaterThanOrEqual(1e7);
  });

  test("match a manual calculation", () => {
    const points = breakingPoints("orders", START, DEFAULTS);
    const from = (name: string) => points.find((point) => point.name === name)!.from;
    expect(from("ordersBytes") / (LIMITS.ordersBytes.value / 50)).toBeCloseTo(1, 1);
    expect(from("segments") / (3_600 * 8_192)).toBeCloseTo(1, 1);
  });
});
