import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { banAt } from "../../../src/worker/limit-rules/bans.ts";
import {
  decide,
  peek,
  type QuotaPolicy,
  quotaLater,
  stateEndMs,
} from "../../../src/worker/limit-rules/decision.ts";
import { retryAfterSeconds } from "../../../src/worker/limit-rules/headers.ts";
import { anyBanPolicy, anyHistory, anyLimits, play } from "./histories.ts";
import { LimitsModel } from "./limits-model.ts";
import { DAY_MS, SimulatedLimiter } from "./simulated-limiter.ts";

const anyKey = fc.tuple(anyLimits, anyBanPolicy, fc.boolean()).map(([limits, banPolicy, bans]) => ({
  policy: { limits, revision: 1, resets: 0, bans },
  banPolicy,
}));

type Key = { readonly policy: QuotaPolicy; readonly banPolicy: SimulatedLimiter["bans"] };

function playOn({ policy, banPolicy }: Key, history: Parameters<typeof play>[1]): SimulatedLimiter {
  const limiter = new SimulatedLimiter(policy, banPolicy);
  play(limiter, history);
  return limiter;
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

test("after any history, a client that waits exactly Retry-After is admitted, and is refused before", () => {
  fc.assert(
    fc.property(anyKey, anyHistory, fc.nat({ max: 999 }), (key, history, lateMs) => {
      const limiter = playOn(key, history);
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
      const limiter = playOn(key, history);
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
