import { describe, expect, test } from "vitest";
import { PLAN_LIMITS } from "../../../src/worker/limit-rules/plans.ts";
import { keyPolicy, MINUTE_MS, SimulatedLimiter } from "./simulated-limiter.ts";

// decision.simulation.test.ts shows the rules; these tests show the documented numbers.

test("plans have the documented limits (docs/limits.md, Plans)", () => {
  expect(PLAN_LIMITS).toEqual({
    free: { perMinute: 60, perDay: 1_000 },
    pro: { perMinute: 300, perDay: 10_000 },
    business: { perMinute: 1_000, perDay: 100_000 },
  });
});

describe("with the default numbers (docs/limits.md, Bans)", () => {
  test.for([
    [1, 60],
    [60, 60],
    [61, 61],
    [1_000, 1_000],
    [1_001, 1_000],
    [1_000_000_000, 1_000],
  ] as const)(
    "a key with %i requests a minute is banned after %i strikes",
    ([perMinute, strikes]) => {
      const limiter = new SimulatedLimiter(keyPolicy(perMinute, 1));
      limiter.requests(2);
      const graced = limiter.advance(9_999).requests(2_000);
      expect(graced.some(({ banned }) => banned)).toBe(false);
      const refused = limiter.advance(1).requests(strikes);
      expect(refused.map(({ banned }) => banned).indexOf(true)).toBe(strikes - 1);
    },
  );

  test("a ban lasts 60 seconds, twice as long each time, and 24 hours at most", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000_000));
    const lengths = Array.from({ length: 13 }, () => {
      limiter.requests(61);
      const { retryAtMs } = limiter.advance(10_000).requests(60).at(-1)!;
      const lengthMs = retryAtMs! - limiter.nowMs;
      limiter.advance(lengthMs);
      return lengthMs / MINUTE_MS;
    });
    expect(lengths).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 1_440, 1_440]);
  });
});
