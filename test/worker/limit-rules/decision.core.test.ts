import { describe, expect, test } from "vitest";
import { PLAN_LIMITS } from "../../../src/worker/limit-rules/plans.ts";
import { DAY_MS, keyPolicy, MINUTE_MS, SimulatedLimiter, START_MS } from "./simulated-limiter.ts";

const remaining = (limiter: SimulatedLimiter) => {
  const { minute, day } = limiter.peek();
  return { minute: minute.remaining, day: day.remaining };
};

describe("plans (docs/limits.md, Plans)", () => {
  test("have the documented limits", () => {
    expect(PLAN_LIMITS).toEqual({
      free: { perMinute: 60, perDay: 1_000 },
      pro: { perMinute: 300, perDay: 10_000 },
      business: { perMinute: 1_000, perDay: 100_000 },
    });
  });
});

describe("admission (docs/limits.md, Windows)", () => {
  test("a Free key has exactly 60 requests a minute", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    const decisions = limiter.requests(200);
    expect(decisions.map(({ admitted }) => admitted)).toEqual([
      ...Array.from({ length: 60 }, () => true),
      ...Array.from({ length: 140 }, () => false),
    ]);
    expect(decisions.slice(0, 60).map(({ minute }) => minute.remaining)).toEqual(
      Array.from({ length: 60 }, (_, index) => 59 - index),
    );
  });

  test("a Free key has exactly 1,000 requests a day", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    let admitted = 0;
    for (let minute = 0; minute < 24 * 60; minute++) {
      limiter.at(minute * MINUTE_MS);
      admitted += limiter.requests(30).filter((decision) => decision.admitted).length;
    }
    expect(admitted).toBe(1_000);
    expect(limiter.at(DAY_MS).request()).toMatchObject({ admitted: true, day: { remaining: 999 } });
  });

  test("a request that the full minute window refuses is not counted in the day window", () => {
    const limiter = new SimulatedLimiter(keyPolicy(2, 10));
    limiter.requests(7);
    expect(remaining(limiter)).toEqual({ minute: 0, day: 8 });
  });

  test("a request that the full day window refuses is not counted in the minute window and does not open one", () => {
    const limiter = new SimulatedLimiter(keyPolicy(5, 3));
    limiter.requests(7);
    expect(remaining(limiter)).toEqual({ minute: 2, day: 0 });
    const refused = limiter.at(2 * MINUTE_MS).request();
    expect(refused).toMatchObject({ admitted: false, minute: { remaining: 5 } });
    expect(limiter.state?.minute).toMatchObject({ openedMs: START_MS });
  });

  test.for([
    { full: "minute", perMinute: 3, perDay: 9, earlier: 0, at: 0, retry: MINUTE_MS },
    { full: "day", perMinute: 9, perDay: 4, earlier: 1, at: 0, retry: DAY_MS },
    { full: "both, day later", perMinute: 4, perDay: 4, earlier: 0, at: 0, retry: DAY_MS },
    {
      full: "both, minute later",
      perMinute: 3,
      perDay: 4,
      earlier: 1,
      at: DAY_MS - 10_000,
      retry: DAY_MS + 50_000,
    },
  ])("the retry time is the end of the full window: $full", (row) => {
    const limiter = new SimulatedLimiter(keyPolicy(row.perMinute, row.perDay));
    limiter.requests(row.earlier);
    limiter.at(row.at).requests(row.perDay - row.earlier);
    expect(limiter.advance(1).request()).toMatchObject({
      admitted: false,
      banned: false,
      retryAtMs: START_MS + row.retry,
    });
    expect(limiter.at(row.retry - 1).request().admitted).toBe(false);
    expect(limiter.at(row.retry).request().admitted).toBe(true);
  });

  test("an address is refused without strikes or a ban, however many requests it sends", () => {
    const limiter = new SimulatedLimiter({ ...keyPolicy(60, 1_000), bans: false });
    const refused = limiter.requests(5_000, 10).filter(({ admitted }) => !admitted);
    expect(refused).toHaveLength(5_000 - 60);
    expect(refused.some(({ banned }) => banned)).toBe(false);
    expect(limiter.state).toMatchObject({ wait: null, ban: null });
  });

  test("a refusal that changes nothing returns the same state object", () => {
    const limiter = new SimulatedLimiter({ ...keyPolicy(1, 10), bans: false });
    limiter.request();
    const { state } = limiter;
    limiter.request();
    expect(limiter.state).toBe(state);
  });
});
