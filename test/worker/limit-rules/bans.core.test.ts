import { describe, expect, test } from "vitest";
import { strikesToBan } from "../../../src/worker/limit-rules/bans.ts";
import { decide } from "../../../src/worker/limit-rules/decision.ts";
import { DEFAULT_BANS, DAY_MS, keyPolicy, SimulatedLimiter } from "./simulated-limiter.ts";

/**
 * Returns the limiter of a key that may send one request a day and has sent it. So all further
 * requests are refused.
 */
function refusing(): SimulatedLimiter {
  const limiter = new SimulatedLimiter(keyPolicy(1_000, 1));
  limiter.request();
  return limiter;
}

const STRIKES = 1_000;
const strikes = (limiter: SimulatedLimiter) => limiter.state?.wait?.strikes;

describe("strikes (docs/limits.md, Bans)", () => {
  test.for([
    [1, 60],
    [59, 60],
    [60, 60],
    [61, 61],
    [300, 300],
    [999, 999],
    [1_000, 1_000],
    [1_001, 1_000],
    [1_000_000_000, 1_000],
  ] as const)(
    "a key with %i requests a minute is banned after %i strikes",
    ([perMinute, expected]) => {
      expect(strikesToBan(DEFAULT_BANS, perMinute)).toBe(expected);
      const limiter = new SimulatedLimiter(keyPolicy(perMinute, 1));
      limiter.requests(2);
      const refused = limiter.advance(10_000).requests(expected);
      expect(refused.map(({ banned }) => banned).indexOf(true)).toBe(expected - 1);
    },
  );

  test("begin 10 seconds after the start of a wait: earlier refusals are no strikes", () => {
    const limiter = refusing();
    limiter.requests(500);
    limiter.advance(9_999).requests(500);
    expect(strikes(limiter)).toBe(0);
    limiter.advance(1).request();
    expect(strikes(limiter)).toBe(1);
  });

  test("the response to the request with the last strike already says that the key is banned", () => {
    const limiter = refusing();
    limiter.request();
    const answers = limiter.advance(10_000).requests(STRIKES);
    expect(answers.at(-2)).toMatchObject({ admitted: false, banned: false });
    expect(answers.at(-1)).toMatchObject({ admitted: false, banned: true });
  });

  test("lead to a ban only if all of them fall within 60 seconds after the first strike", () => {
    const inTime = refusing();
    inTime.request();
    inTime.advance(10_000).requests(STRIKES - 1);
    expect(inTime.advance(59_999).request().banned).toBe(true);

    const late = refusing();
    late.request();
    late.advance(10_000).requests(STRIKES - 1);
    expect(late.advance(60_000).request().banned).toBe(false);
    expect(strikes(late)).toBe(1);
    expect(late.requests(STRIKES - 1).at(-1)?.banned).toBe(true);
  });

  test("begin a new series of 60 seconds if the first strike is 60 seconds ago", () => {
    const limiter = refusing();
    limiter.request();
    limiter.advance(10_000).requests(STRIKES - 1);
    limiter.advance(90_000).requests(STRIKES - 1);
    expect(limiter.advance(59_999).request().banned).toBe(true);
  });

  test("are reset to zero by an admission, and the next refusal begins a new wait", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.requests(61);
    limiter.advance(10_000).requests(59);
    limiter.at(60_000).requests(60);
    limiter.requests(500);
    expect(strikes(limiter)).toBe(0);
    const refused = limiter.advance(10_000).requests(60);
    expect(refused.map(({ banned }) => banned).indexOf(true)).toBe(59);
  });

  test("are reset to zero by a ban", () => {
    const limiter = refusing();
    limiter.request();
    limiter.advance(10_000).requests(STRIKES);
    const afterwards = limiter.advance(60_000).requests(STRIKES);
    expect(afterwards.map(({ banned }) => banned).indexOf(true)).toBe(STRIKES - 1);
  });

  test("are lost in a restart, unlike a ban", () => {
    const limiter = refusing();
    limiter.request();
    limiter.advance(10_000).requests(STRIKES - 1);
    limiter.restart();
    expect(limiter.requests(500).at(-1)?.banned).toBe(false);
    limiter.advance(10_000).requests(STRIKES);
    expect(limiter.restart().request().banned).toBe(true);
    expect(limiter.at(DAY_MS - 1).request().admitted).toBe(false);
  });
});

describe("strikes that an isolate reports later (docs/limits.md, Bans)", () => {
  /** Reports strikes 30 seconds after a wait began, and returns whether the key is banned then. */
  const report = (
    limiter: SimulatedLimiter,
    { count = 0, oldestAgeMs = 0, waitAgeMs = 30_000 },
  ): boolean => {
    const { state, policy, bans, nowMs } = limiter;
    const decided = decide(state, policy, bans, nowMs, {
      startedMs: nowMs - waitAgeMs,
      strikes: count,
      oldestStrikeMs: nowMs - oldestAgeMs,
    });
    limiter.state = decided.state;
    return decided.decision.banned;
  };
  const waiting = () => {
    const limiter = refusing();
    limiter.request();
    return limiter.advance(30_000);
  };

  test("lead to a ban together with the refused request", () => {
    expect(report(waiting(), { count: STRIKES - 2 })).toBe(false);
    expect(report(waiting(), { count: STRIKES - 1 })).toBe(true);
  });

  test("are left out if they may belong to the grace or to more than one series", () => {
    expect(report(waiting(), { count: STRIKES, oldestAgeMs: 20_000 })).toBe(true);
    expect(report(waiting(), { count: STRIKES, oldestAgeMs: 20_001 })).toBe(false);
    expect(report(waiting().advance(60_000), { count: STRIKES, oldestAgeMs: 59_999 })).toBe(true);
    expect(report(waiting().advance(60_000), { count: STRIKES, oldestAgeMs: 60_000 })).toBe(false);

    const series = waiting();
    series.requests(STRIKES - 3);
    series.advance(61_000);
    expect(report(series, { count: 3, oldestAgeMs: 2_000 })).toBe(false);
    expect(strikes(series)).toBe(1);
  });

  test("restore a wait that a restart has lost, but not a wait from before the full window", () => {
    const restored = waiting().restart();
    expect(report(restored, { count: STRIKES - 1, waitAgeMs: 30_000 })).toBe(true);
    const earlier = waiting().restart();
    expect(report(earlier, { count: STRIKES - 1, waitAgeMs: 30_001 })).toBe(false);
    expect(strikes(earlier)).toBe(0);
  });

  test("do not ban a request that is admitted", () => {
    const limiter = waiting().advance(DAY_MS);
    expect(report(limiter, { count: STRIKES, waitAgeMs: DAY_MS })).toBe(false);
    expect(limiter.state?.wait).toBeNull();
  });
});
