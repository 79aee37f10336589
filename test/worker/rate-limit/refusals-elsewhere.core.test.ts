import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decide } from "../../../src/worker/limits/decision.ts";
import { anyBanPolicy, anyHistory, anyLimits, play } from "../limits/histories.ts";
import {
  DEFAULT_BANS,
  keyPolicy,
  MINUTE_MS,
  SimulatedLimiter,
  START_MS,
} from "../limits/simulated-limiter.ts";

describe("refusals that are reported later (docs/limits.md, Bans)", () => {
  test("count as if each had been reported at its own time", () => {
    fc.assert(
      fc.property(
        anyBanPolicy,
        fc.array(fc.integer({ min: 0, max: 20_000 }), { minLength: 1, maxLength: 12 }),
        (banPolicy, gapsMs) => {
          const prompt = new SimulatedLimiter(keyPolicy(1, 1), banPolicy);
          prompt.requests(2);
          const { state } = prompt;
          const timesMs = gapsMs.map((gapMs) => {
            prompt.advance(gapMs).request();
            return prompt.nowMs;
          });
          const late = decide(state, prompt.policy, banPolicy, prompt.nowMs, timesMs.slice(0, -1));
          expect(late.state).toEqual(prompt.state);
        },
      ),
    );
  });

  test("that lead to a ban: the decision on the reporting request says that the key is banned", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.requests(61);
    const strikesMs = Array.from({ length: 59 }, (_, index) => START_MS + 10_000 + index);
    const { decision } = decide(
      limiter.state,
      limiter.policy,
      DEFAULT_BANS,
      START_MS + 11_000,
      strikesMs,
    );
    expect(decision).toMatchObject({
      admitted: false,
      banned: true,
      retryAtMs: START_MS + 11_000 + MINUTE_MS,
    });
  });

  test("do not count if their wait has ended", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.requests(61);
    const earlierMs = [START_MS + 15_000, START_MS + 16_000];
    limiter.advance(MINUTE_MS).requests(60);
    const refuse = () =>
      decide(limiter.state, limiter.policy, DEFAULT_BANS, limiter.nowMs, earlierMs);
    expect(refuse().state.wait).toMatchObject({ startedMs: limiter.nowMs, strikes: 0 });
    limiter.request();
    limiter.advance(11_000);
    expect(refuse().state.wait).toMatchObject({ strikes: 1 });
  });

  test("count in the current wait, although a window has ended and a lower plan prolongs the wait", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.requests(61);
    const lowered = { ...keyPolicy(1, 1), revision: 2 };
    const strikesMs = [START_MS + 15_000, START_MS + 16_000];
    const nowMs = START_MS + MINUTE_MS;
    const { state } = decide(limiter.state, lowered, DEFAULT_BANS, nowMs, strikesMs);
    expect(state.wait).toMatchObject({ startedMs: START_MS, strikes: 3 });
  });

  test("count at the current time if another clock puts them in the future", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    limiter.requests(61);
    const { state } = decide(limiter.state, limiter.policy, DEFAULT_BANS, START_MS, [
      START_MS + 5_000,
    ]);
    expect(state.wait).toMatchObject({ startedMs: START_MS, strikes: 0 });
  });
});

describe("the forecast of a ban", () => {
  test("is part of a decision only if further refusals can lead to a ban", () => {
    const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
    expect(limiter.requests(60).every(({ strikes }) => strikes === null)).toBe(true);
    expect(limiter.request().strikes).toEqual({
      waitedSinceMs: START_MS,
      countFromMs: START_MS + 10_000,
      left: 60,
    });
    expect(limiter.advance(10_000).request().strikes?.left).toBe(59);
    expect(limiter.requests(59).at(-1)).toMatchObject({ banned: true, strikes: null });

    const address = new SimulatedLimiter({ ...keyPolicy(1, 1), bans: false });
    expect(address.requests(2).at(-1)).toMatchObject({ admitted: false, strikes: null });
  });

  test("is exact after any history: exactly the announced number of refusals leads to a ban", () => {
    fc.assert(
      fc.property(anyLimits, anyBanPolicy, anyHistory, (limits, banPolicy, history) => {
        const limiter = new SimulatedLimiter(keyPolicy(limits.perMinute, limits.perDay), banPolicy);
        play(limiter, history);
        const { strikes } = limiter.request();
        if (strikes === null || strikes.countFromMs > limiter.nowMs) return;
        const banned = limiter.requests(strikes.left).map((decision) => decision.banned);
        expect(banned.indexOf(true)).toBe(strikes.left - 1);
      }),
      { numRuns: 300 },
    );
  });
});
