import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/rules/config.ts";
import { banAt } from "../../../src/rules/limits/bans.ts";
import { decide, peek, quotaLater } from "../../../src/rules/limits/decision.ts";
import { stateEndMs } from "../../../src/rules/limits/limiter-state.ts";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { anyBanVars, anyHistory, anyLimits, type Step } from "./histories.ts";
import { followsTheRules } from "./follows-the-rules.ts";
import { DEFAULT_BANS, keyPolicy, SimulatedLimiter } from "./simulated-limiter.ts";
import { DAY_MS } from "../../support/clock.ts";

const anyKey = fc.record({
  policy: anyLimits.map(({ perMinute, perDay }) => keyPolicy(perMinute, perDay)),
  bans: anyBanVars.map((vars) => parseConfig(vars).bans),
});

type History = readonly Step<SimulatedLimiter>[];

function play(limiter: SimulatedLimiter, history: History): SimulatedLimiter {
  for (const step of history) void step.play(limiter);
  return limiter;
}

test("in any history of a key, the windows, waits, strikes and bans are those of docs/limits.md: a window or ban ends at the latest after its own length if the clock is set back", () => {
  const seen = { strikes: 0, bans: 0 };
  fc.assert(
    fc.property(anyKey, anyHistory, ({ policy, bans }, history) => {
      const limiter = play(new SimulatedLimiter(policy, bans), history);
      followsTheRules(limiter.history);
      for (const one of limiter.history) {
        if (one === "restart") continue;
        seen.strikes += one.decided.strikes;
        seen.bans += Number(one.decided.newBan !== null);
      }
    }),
    { numRuns: 600 },
  );
  expect(Math.min(seen.strikes, seen.bans)).toBeGreaterThan(300);
});

test("after any history, a client that waits exactly Retry-After is admitted, and is refused before", () => {
  fc.assert(
    fc.property(anyKey, anyHistory, fc.nat({ max: 999 }), (key, history, lateMs) => {
      const limiter = play(new SimulatedLimiter(key.policy, key.bans), history);
      const refusal = limiter.advance(lateMs).request();
      const { state, nowMs } = limiter;
      if (refusal.admitted) return;
      const seconds = retryAfterSeconds(refusal);
      expect(Number.isInteger(seconds) && seconds >= 1 && seconds <= 86_400).toBe(true);
      expect(limiter.advance(seconds * 1_000).request().admitted).toBe(true);
      limiter.state = state;
      limiter.nowMs = Math.max(nowMs, refusal.retryAtMs! - 1);
      expect(limiter.request().admitted).toBe(false);
    }),
    { numRuns: 200 },
  );
});

test("after any history, a quota can be moved to a later time, and the state has an effect until its end", () => {
  fc.assert(
    fc.property(anyKey, anyHistory, fc.nat({ max: 2 * DAY_MS }), (key, history, laterMs) => {
      const limiter = play(new SimulatedLimiter(key.policy, key.bans), history);
      const decision = limiter.request();
      const { policy, bans, nowMs } = limiter;
      const state = { ...limiter.state!, wait: null };
      for (const atMs of [nowMs + laterMs, decision.minute.endsMs, decision.minute.endsMs - 1]) {
        const { minute, day } = quotaLater(decision, atMs);
        expect(peek(state, policy, bans, atMs)).toMatchObject({ minute, day });
      }
      const endMs = stateEndMs(state, bans);
      const hasEffect = (atMs: number) =>
        banAt(state.ban, { ...bans, mode: state.ban?.loggedOnly ? "log" : "on" }, atMs) !== null ||
        !isDeepStrictEqual(
          decide(state, policy, bans, atMs).decision,
          decide(null, policy, bans, atMs).decision,
        );
      expect([hasEffect(endMs - 1), hasEffect(endMs)]).toEqual([true, false]);
    }),
  );
});

test("a report without strikes does not move the time of the first strike", () => {
  const policy = keyPolicy(1, 1);
  let state = null;
  for (const nowMs of [0, 1_000, 60_000]) {
    ({ state } = decide(state, policy, DEFAULT_BANS, nowMs));
  }
  const report = { ageMs: 60_000, strikes: 0, oldestStrikeAgeMs: 40_000 };
  const decided = decide(state, policy, DEFAULT_BANS, 61_000, report);
  expect(decided.state.wait).toMatchObject({ strikes: 2, firstStrikeMs: 60_000 });
});

test("a report restores a lost wait that began in the millisecond in which the window filled", () => {
  const policy = keyPolicy(1, 1);
  const { state } = decide(null, policy, DEFAULT_BANS, 0);
  const report = { ageMs: 10_000, strikes: 1, oldestStrikeAgeMs: 0 };
  expect(decide(state, policy, DEFAULT_BANS, 10_000, report).strikes).toBe(2);
});
