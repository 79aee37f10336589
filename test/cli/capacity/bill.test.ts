import { describe, expect, test } from "vitest";
import { bill, type BilledUse } from "../../../src/cli/capacity/bill.ts";
import { PLAN_DOLLARS, PRICES } from "../../../src/cli/capacity/prices.ts";

const NOTHING = Object.fromEntries(Object.keys(PRICES).map((item) => [item, 0])) as Record<
  keyof BilledUse,
  number
>;

describe("Cloudflare's own examples", () => {
  // https://developers.cloudflare.com/workers/platform/pricing/#example-pricing
  test.for([
    [15e6, 8],
    [100e6, 45.4],
  ] as const)("%d requests of 7 ms: $%d", ([requests, dollars]) => {
    expect(bill({ ...NOTHING, requests, cpuMs: requests * 7 }).total).toBeCloseTo(dollars);
  });

  // https://developers.cloudflare.com/observability/pricing/#example
  test("75 GB of logs, and 20 GB-months of them kept: $7.05", () => {
    const { items } = bill({ ...NOTHING, logGb: 75, logGbMonths: 20 });
    expect(items.logGb).toBeCloseTo(6.25);
    expect(items.logGbMonths).toBeCloseTo(0.8);
  });
});

test("what the plan includes costs the plan alone", () => {
  const included = Object.fromEntries(
    Object.entries(PRICES).map(([item, price]) => [item, price.included]),
  ) as Record<keyof BilledUse, number>;
  expect(bill(included).total).toBe(PLAN_DOLLARS);
});

test("the total is the sum of the items and the plan", () => {
  const use = Object.fromEntries(
    Object.entries(PRICES).map(([item, { included, per }], index) => [
      item,
      included + per * (index + 1),
    ]),
  ) as Record<keyof BilledUse, number>;
  const { items, total } = bill(use);
  const sum = Object.values(items).reduce((dollars, item) => dollars + item, PLAN_DOLLARS);
  expect(total).toBeCloseTo(sum);
  Object.entries(PRICES).forEach(([item, { dollars }], index) => {
    expect(items[item as keyof BilledUse]).toBeCloseTo(dollars * (index + 1));
  });
});
