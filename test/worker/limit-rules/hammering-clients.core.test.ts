import { describe, expect, test } from "vitest";
import { PLAN_LIMITS } from "../../../src/worker/limit-rules/plans.ts";
import { HOUR_MS, keyPolicy, MINUTE_MS, SimulatedLimiter } from "./simulated-limiter.ts";
import { loops, run } from "./traffic.ts";

const { perMinute, perDay } = PLAN_LIMITS.free;

describe("a loop of requests with a Free key is banned (docs/limits.md, Bans)", () => {
  test.for([3, 3.5, 4, 5, 10, 60, 100, 1_000])(
    "within its first minute, at %s requests a second",
    (rate) => {
      const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
      const { admitted, bannedAfterMs } = run(limiter, [loops(rate)], MINUTE_MS);
      expect(admitted).toBe(60);
      expect(bannedAfterMs).toBeLessThan(MINUTE_MS);
    },
  );

  test("after about 50 seconds at 3 requests a second: 20 s until the window is full, 10 s of grace, 20 s of strikes", () => {
    const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
    const { bannedAfterMs } = run(limiter, [loops(3)], MINUTE_MS);
    expect(bannedAfterMs).toBeGreaterThan(49_000);
    expect(bannedAfterMs).toBeLessThan(51_000);
  });

  test("within the first minute window that the loop opens, even if an earlier window is still open", () => {
    for (let openedEarlierMs = 0; openedEarlierMs < MINUTE_MS; openedEarlierMs += 500) {
      const limiter = new SimulatedLimiter(keyPolicy(perMinute, perDay));
      limiter.request();
      limiter.advance(openedEarlierMs);
      const { bannedAfterMs } = run(limiter, [loops(3)], 2 * MINUTE_MS);
      expect(bannedAfterMs).toBeLessThan(MINUTE_MS - openedEarlierMs + MINUTE_MS);
    }
  });

  test("sooner if the day window is full", () => {
    const limiter = new SimulatedLimiter(keyPolicy(perMinute, 1));
    limiter.request();
    const { bannedAfterMs } = run(limiter.advance(HOUR_MS), [loops(3)], MINUTE_MS);
    expect(bannedAfterMs).toBeLessThan(31_000);
  });

  test("again and again, each time for longer, while the loop continues", () => {
    const limiter = new SimulatedLimiter(keyPolicy(perMinute, 1_000_000));
    const lengths = Array.from({ length: 5 }, () => {
      expect(run(limiter, [loops(10)], MINUTE_MS).bannedAfterMs).not.toBeNull();
      const endMs = limiter.state?.ban?.untilMs ?? Number.NaN;
      const lengthMs = endMs - limiter.nowMs;
      limiter.nowMs = endMs;
      return lengthMs / MINUTE_MS;
    });
    expect(lengths).toEqual([1, 2, 4, 8, 16]);
  });
});

describe("a loop of requests whose refusals per minute are fewer than the limit", () => {
  test("is not banned, at 1.5 requests a second on a Free key for hours", () => {
    const limiter = new SimulatedLimiter(keyPolicy(perMinute, 1_000_000));
    expect(run(limiter, [loops(1.5)], 5 * HOUR_MS).bannedAfterMs).toBeNull();
  });
});
