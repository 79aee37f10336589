import { expect, test, vi } from "vitest";
import { AddressBudget } from "../../../src/worker/limiter/memory-limiter.ts";
import { DAY_MS, DEFAULT_BANS, MINUTE_MS, START_MS } from "../limit-rules/simulated-limiter.ts";

const ADDRESS = "192.0.2.1";

test("an address has both windows of the Free plan, and is not banned however fast it sends", () => {
  vi.useFakeTimers({ toFake: ["Date"], now: START_MS });
  const budget = new AddressBudget(DEFAULT_BANS);
  let admitted = 0;
  for (let second = 0; second < 20 * 60; second += 15) {
    vi.setSystemTime(START_MS + second * 1_000);
    for (let n = 0; n < 100; n++) admitted += Number(budget.countFailure(ADDRESS).admitted);
  }
  expect(admitted).toBe(1_000);
  const left = { banned: false, minute: { remaining: 20 }, retryAtMs: START_MS + DAY_MS };
  vi.setSystemTime(START_MS + 17 * MINUTE_MS - 1);
  for (let n = 0; n < 3; n++) expect(budget.peek(ADDRESS)).toMatchObject(left);
});

test("a flood of addresses evicts only the least recently used addresses", () => {
  const budget = new AddressBudget(DEFAULT_BANS, 100);
  budget.countFailure(ADDRESS);
  budget.countFailure("192.0.2.2");
  for (let n = 0; n < 1_000; n++) {
    budget.countFailure(`2001:db8:0:${n.toString(16)}::/64`);
    if (n % 50 === 0) budget.countFailure("192.0.2.2");
  }
  expect(budget.peek(ADDRESS).day.remaining).toBe(1_000);
  expect(budget.peek("192.0.2.2").day.remaining).toBeLessThan(999);
});
