import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/rules/config.ts";
import { banAt } from "../../../src/rules/limits/bans.ts";
import { decide, peek, quotaLater } from "../../../src/rules/limits/decision.ts";
import { stateEndMs } from "../../../src/rules/limits/limiter-state.ts";
import { anyBanVars, anyHistory, anyLimits, type Step } from "./histories.ts";
import { type Asked, followsTheRules } from "./follows-the-rules.ts";
import { keyPolicy, SimulatedLimiter } from "./simulated-limiter.ts";
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
      const limiter = new SimulatedLimiter(policy, bans);
      const happened: (Asked | "restart")[] = [];
      limiter.history = happened;
      play(limiter, history);
      followsTheRules(happened);
      for (const one of happened) {
        if (one === "restart") continue;
        seen.strikes += one.decided.strikes;
        seen.bans += Number(one.decided.newBan !== null);
      }
    }),
    { numRuns: 600 },
  );
  expect(Math.min(seen.strikes, seen.bans)).toBeGreaterThan(300);
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

test("a report without strikes does not move the time of the first strike, and one restores a wait that began in the millisecond in which the window filled", () => {
  const limiter = new SimulatedLimiter(keyPolicy(1, 1));
  for (const ms of [0, 1_000, 59_000]) limiter.advance(ms).request();
  limiter.advance(1_000).request({ ageMs: 60_000, strikes: 0, oldestStrikeAgeMs: 40_000 });
  const firstStrikeMs = limiter.nowMs - 1_000;
  expect(limiter.state?.wait).toMatchObject({ strikes: 2, firstStrikeMs });

  const restarted = new SimulatedLimiter(keyPolicy(1, 1));
  restarted.request();
  restarted.advance(10_000).request({ ageMs: 10_000, strikes: 1, oldestStrikeAgeMs: 0 });
  expect(restarted.state?.wait).toMatchObject({ strikes: 2 });
});
