import { expect, test, vi } from "vitest";
import { AddressBudget } from "../../../src/worker/limiter/address-budget.ts";
import { DEFAULT_BANS, START_MS } from "../../rules/limits/simulated-limiter.ts";
import { DAY_MS } from "../../support/clock.ts";

const from = (address: string) => ({ headers: new Headers({ "CF-Connecting-IP": address }) });

const ADDRESS = from("192.0.2.1");

test("an address has both windows of the Free plan, and is not banned however fast it sends", () => {
  vi.useFakeTimers({ toFake: ["Date"], now: START_MS });
  const budget = new AddressBudget(DEFAULT_BANS);
  let admitted = 0;
  for (let second = 0; second < 20 * 60; second += 30) {
    vi.setSystemTime(START_MS + second * 1_000);
    for (let n = 0; n < 75; n++) admitted += Number(budget.countFailure(ADDRESS).admitted);
  }
  expect(admitted).toBe(1_000);
  expect(budget.peek(ADDRESS)).toMatchObject({ banned: false, retryAtMs: START_MS + DAY_MS });
});

test("a flood of addresses evicts only the least recently used addresses", () => {
  const budget = new AddressBudget(DEFAULT_BANS, 100);
  const other = from("192.0.2.2");
  for (const address of [ADDRESS, other]) budget.countFailure(address);
  for (let n = 0; n < 300; n++) {
    budget.countFailure(n % 50 === 0 ? other : from(`2001:db8:0:${n.toString(16)}::1`));
  }
  expect(budget.peek(ADDRESS).day.remaining).toBe(1_000);
  expect(budget.peek(other).day.remaining).toBeLessThan(999);
});

test.for([
  ["203.0.113.7", "::ffff:203.0.113.7", "0:0:0:0:0:FFFF:cb00:7107"],
  ["2001:db8:1:2:3:4:5:6", "2001:0DB8:0001:0002:FFFF:FFFF:FFFF:FFFF"],
  ["", "localhost", "203.0.113.256", "203.0.113.7, 198.51.100.1", "2001:db8::/64"],
])("clients that share one budget, and with no other address: %j", (addresses) => {
  const budget = new AddressBudget(DEFAULT_BANS);
  for (const other of ["203.0.113.8", "2001:db8:1:3::1"]) budget.countFailure(from(other));
  for (const [n, address] of addresses.entries()) {
    expect(budget.countFailure(from(address)).day.remaining, address).toBe(999 - n);
  }
});
