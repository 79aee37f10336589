import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { banAt } from "../../../src/worker/limit-rules/bans.ts";
import {
  type Decision,
  decide,
  peek,
  type QuotaPolicy,
  quotaLater,
  stateEndMs,
} from "../../../src/worker/limit-rules/decision.ts";
import { quotaHeaders, retryAfterSeconds } from "../../../src/worker/limit-rules/headers.ts";
import { anyBanPolicy, anyHistory, anyLimits, anyTraffic, play } from "./histories.ts";
import { LimitsModel } from "./limits-model.ts";
import { DAY_MS, MINUTE_MS, SimulatedLimiter } from "./simulated-limiter.ts";

interface Answered {
  readonly nowMs: number;
  readonly decision: Decision;
}

const anyKey = fc.tuple(anyLimits, anyBanPolicy, fc.boolean()).map(([limits, banPolicy, bans]) => ({
  policy: { limits, revision: 1, resets: 0, bans },
  banPolicy,
}));

type Key = { readonly policy: QuotaPolicy; readonly banPolicy: SimulatedLimiter["bans"] };

function playOn({ policy, banPolicy }: Key, history: Parameters<typeof play>[1]) {
  const limiter = new SimulatedLimiter(policy, banPolicy);
  const answers: Answered[] = [];
  play(limiter, history, {
    requested: (_, nowMs, decision) => answers.push({ nowMs, decision }),
  });
  return { limiter, answers };
}

/** Returns the largest number of admissions in any period of this length. */
function mostAdmittedWithin(lengthMs: number, admittedMs: readonly number[]): number {
  const within = (fromMs: number) =>
    admittedMs.filter((ms) => ms >= fromMs && ms < fromMs + lengthMs).length;
  return Math.max(0, ...admittedMs.map(within));
}

// The tests call `expect` only for a difference, because a call takes longer than a decision.

test("any history of a key gets the same decisions, strikes and bans as from the reference model", () => {
  const seen = { strikes: 0, bans: 0 };
  fc.assert(
    fc.property(anyKey, anyHistory, (key, history) => {
      const limiter = new SimulatedLimiter(key.policy, key.banPolicy);
      const model = new LimitsModel(key.banPolicy);
      play(limiter, history, {
        requested(policy, nowMs, decision, reported) {
          model.numbers = limiter.bans;
          const expected = model.request(policy, nowMs, reported);
          if (!isDeepStrictEqual(decision, expected)) expect(decision).toStrictEqual(expected);
          const { state, counted } = limiter;
          const { strikes, bans } = model;
          if (!isDeepStrictEqual(counted, { strikes, bans })) {
            expect(counted).toStrictEqual({ strikes, bans });
          }
          const peeked = { ...decision, ...peek(state, policy, limiter.bans, nowMs) };
          if (!isDeepStrictEqual(decision, peeked)) expect(peeked).toStrictEqual(decision);
        },
        restarted: () => model.restart(),
      });
      seen.strikes += model.strikes;
      seen.bans += model.bans;
    }),
    { numRuns: 1_000 },
  );
  expect(Math.min(seen.strikes, seen.bans)).toBeGreaterThan(500);
});

test("any traffic: at most the limit in a window, twice the limit in any period of its length, and refused requests change nothing", () => {
  fc.assert(
    fc.property(anyKey, anyTraffic, (key, traffic) => {
      const { limiter, answers } = playOn(key, traffic);
      const admitted = answers.filter(({ decision }) => decision.admitted);
      for (const [name, lengthMs, limit] of [
        ["minute", MINUTE_MS, key.policy.limits.perMinute],
        ["day", DAY_MS, key.policy.limits.perDay],
      ] as const) {
        const perWindow = Map.groupBy(admitted, ({ decision }) => decision[name].endsMs);
        for (const [endsMs, inWindow] of perWindow) {
          expect(inWindow.length).toBeLessThanOrEqual(limit);
          expect(endsMs).toBe(inWindow[0]!.nowMs + lengthMs);
        }
        const times = admitted.map(({ nowMs }) => nowMs);
        expect(mostAdmittedWithin(lengthMs, times)).toBeLessThanOrEqual(2 * limit);
      }
      const alone = new SimulatedLimiter(key.policy, key.banPolicy);
      for (const { nowMs, decision } of admitted) {
        alone.nowMs = nowMs;
        expect(alone.request()).toEqual(decision);
      }
      expect(alone.state?.minute).toEqual(limiter.state?.minute);
      expect(alone.state?.day).toEqual(limiter.state?.day);
    }),
  );
});

test("after any history, a client that waits exactly Retry-After is admitted, and is refused before", () => {
  fc.assert(
    fc.property(anyKey, anyHistory, fc.nat({ max: 999 }), (key, history, lateMs) => {
      const { limiter } = playOn(key, history);
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

test("after any history, the headers agree with the decision", () => {
  fc.assert(
    fc.property(anyKey, anyHistory, (key, history) => {
      for (const { nowMs, decision } of playOn(key, history).answers) {
        const { minute, day, banned, admitted, retryAtMs } = decision;
        const headers = quotaHeaders(decision);
        const left = Number(headers["X-RateLimit-Remaining"]);
        const resetMs = Number(headers["X-RateLimit-Reset"]) * 1_000;
        const fewest = banned ? 0 : Math.min(minute.remaining, day.remaining);
        const limits = [String(minute.limit), String(day.limit)];
        if (left !== fewest) expect(left).toBe(fewest);
        if (resetMs <= nowMs) expect(resetMs).toBeGreaterThan(nowMs);
        const limit = headers["X-RateLimit-Limit"]!;
        if (!limits.includes(limit)) expect(limits).toContain(limit);
        if (admitted) continue;
        expect([left, resetMs]).toEqual([0, Math.ceil(retryAtMs! / 1_000) * 1_000]);
        expect(nowMs + retryAfterSeconds(decision) * 1_000).toBeGreaterThanOrEqual(retryAtMs!);
      }
    }),
  );
});

test("after any history, a quota can be moved to a later time, and the state has an effect until its end", () => {
  fc.assert(
    fc.property(anyKey, anyHistory, fc.nat({ max: 2 * DAY_MS }), (key, history, laterMs) => {
      const { limiter } = playOn(key, history);
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
