import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { AddressBudget } from "../../../src/worker/limiter/memory-limiter.ts";
import { DEFAULT_BANS, DAY_MS, MINUTE_MS, START_MS } from "../limit-rules/simulated-limiter.ts";

const ADDRESS = "192.0.2.1";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: START_MS });
});

afterEach(() => {
  vi.useRealTimers();
});

function admitAll(budget: AddressBudget, count: number): boolean[] {
  return Array.from({ length: count }, () => budget.countFailure(ADDRESS).admitted);
}

test("an address has both windows of the Free plan", () => {
  const budget = new AddressBudget(DEFAULT_BANS);
  for (let minute = 0; minute < 16; minute++) {
    vi.setSystemTime(START_MS + minute * MINUTE_MS);
    expect(admitAll(budget, 61)).toStrictEqual([...Array<boolean>(60).fill(true), false]);
  }
  vi.setSystemTime(START_MS + 16 * MINUTE_MS);
  expect(admitAll(budget, 41)).toStrictEqual([...Array<boolean>(40).fill(true), false]);
  expect(budget.peek(ADDRESS).retryAtMs).toBe(START_MS + DAY_MS);
  vi.setSystemTime(START_MS + DAY_MS);
  expect(budget.countFailure(ADDRESS)).toMatchObject({ admitted: true, day: { remaining: 999 } });
});

test("an address that keeps sending is never banned", () => {
  const budget = new AddressBudget(DEFAULT_BANS);
  admitAll(budget, 60);
  for (let second = 0; second < 60; second++) {
    vi.setSystemTime(START_MS + second * 1_000);
    expect(admitAll(budget, 20)).not.toContain(true);
  }
  expect(budget.peek(ADDRESS)).toMatchObject({ banned: false, retryAtMs: START_MS + MINUTE_MS });
});

test("a peek counts nothing", () => {
  const budget = new AddressBudget(DEFAULT_BANS);
  for (let look = 0; look < 3; look++) expect(budget.peek(ADDRESS).minute.remaining).toBe(60);
  budget.countFailure(ADDRESS);
  for (let look = 0; look < 3; look++) expect(budget.peek(ADDRESS).minute.remaining).toBe(59);
  expect(budget.peek("192.0.2.2").minute.remaining).toBe(60);
});

test("a flood of addresses evicts only the least recently used addresses", () => {
  const budget = new AddressBudget(DEFAULT_BANS, 100);
  budget.countFailure(ADDRESS);
  budget.countFailure("192.0.2.2");
  for (let n = 0; n < 10_000; n++) {
    budget.countFailure(`2001:db8:0:${n.toString(16)}::/64`);
    if (n % 50 === 0) budget.countFailure("192.0.2.2");
  }
  expect(budget.peek(ADDRESS).day.remaining).toBe(1_000);
  expect(budget.peek("192.0.2.2").day.remaining).toBeLessThan(999);
});
