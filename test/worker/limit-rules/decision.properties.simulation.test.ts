import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Decision, QuotaPolicy } from "../../../src/worker/limit-rules/decision.ts";
import { quotaHeaders, retryAfterSeconds } from "../../../src/worker/limit-rules/headers.ts";
import { anyBanPolicy, anyHistory, anyLimits, anyTraffic, play, type Step } from "./histories.ts";
import { DAY_MS, MINUTE_MS, SimulatedLimiter } from "./simulated-limiter.ts";

interface Answered {
  readonly policy: QuotaPolicy;
  readonly nowMs: number;
  readonly decision: Decision;
}

const RUNS = { numRuns: 300 };

const anyKey = fc.tuple(anyLimits, anyBanPolicy, fc.boolean()).map(([limits, banPolicy, bans]) => ({
  policy: { limits, revision: 1, resets: 0, bans },
  banPolicy,
}));

function playOn(
  key: { policy: QuotaPolicy; banPolicy: SimulatedLimiter["bans"] },
  history: readonly Step[],
) {
  const limiter = new SimulatedLimiter(key.policy, key.banPolicy);
  const answers: Answered[] = [];
  play(limiter, history, {
    requested: (policy, nowMs, decision) => answers.push({ policy, nowMs, decision }),
  });
  return { limiter, answers };
}

/** Returns the largest number of admissions in any period of this length. */
function mostAdmittedWithin(lengthMs: number, admittedMs: readonly number[]): number {
  const within = (fromMs: number) =>
    admittedMs.filter((ms) => ms >= fromMs && ms < fromMs + lengthMs).length;
  return Math.max(0, ...admittedMs.map(within));
}

describe("any traffic on one plan (docs/limits.md, Windows)", () => {
  test("admits at most the limit in each window, and at most twice the limit in any period of a window's length", () => {
    fc.assert(
      fc.property(anyKey, anyTraffic, (key, traffic) => {
        const { answers } = playOn(key, traffic);
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
      }),
      RUNS,
    );
  });

  test("results in the same windows if the refused requests are never sent", () => {
    fc.assert(
      fc.property(anyKey, anyTraffic, (key, traffic) => {
        const { limiter, answers } = playOn(key, traffic);
        const alone = new SimulatedLimiter(key.policy, key.banPolicy);
        for (const { nowMs, decision } of answers) {
          if (!decision.admitted) continue;
          alone.nowMs = nowMs;
          expect(alone.request()).toEqual(decision);
        }
        expect(alone.state?.minute).toEqual(limiter.state?.minute);
        expect(alone.state?.day).toEqual(limiter.state?.day);
      }),
      RUNS,
    );
  });
});

describe("after any history (docs/limits.md, Headers)", () => {
  test("a client that waits exactly Retry-After and sends one request is admitted", () => {
    fc.assert(
      fc.property(anyKey, anyHistory, fc.nat({ max: 999 }), (key, history, lateMs) => {
        const { limiter } = playOn(key, history);
        const refusal = limiter.advance(lateMs).request();
        if (!refusal.admitted) {
          const seconds = retryAfterSeconds(refusal);
          expect(Number.isInteger(seconds) && seconds >= 1 && seconds <= 86_400).toBe(true);
          expect(limiter.advance(seconds * 1_000).request().admitted).toBe(true);
        }
      }),
      RUNS,
    );
  });

  test("a request before the retry time is refused", () => {
    fc.assert(
      fc.property(anyKey, anyHistory, (key, history) => {
        const { limiter } = playOn(key, history);
        const { retryAtMs } = limiter.peek();
        if (retryAtMs === null) return;
        limiter.nowMs = retryAtMs - 1;
        expect(limiter.request().admitted).toBe(false);
      }),
      RUNS,
    );
  });
});

describe("the headers of any response (docs/limits.md, Headers)", () => {
  test("agree with the decision", () => {
    fc.assert(
      fc.property(anyKey, anyHistory, (key, history) => {
        for (const { nowMs, decision } of playOn(key, history).answers) {
          const headers = quotaHeaders(decision);
          const left = Number(headers["X-RateLimit-Remaining"]);
          const resetMs = Number(headers["X-RateLimit-Reset"]) * 1_000;
          expect(left).toBe(
            decision.banned ? 0 : Math.min(decision.minute.remaining, decision.day.remaining),
          );
          expect([decision.minute.limit, decision.day.limit].map(String)).toContain(
            headers["X-RateLimit-Limit"],
          );
          expect(resetMs).toBeGreaterThan(nowMs);
          if (!decision.admitted) {
            expect(left).toBe(0);
            expect(resetMs).toBe(Math.ceil(decision.retryAtMs! / 1_000) * 1_000);
            expect(nowMs + retryAfterSeconds(decision) * 1_000).toBeGreaterThanOrEqual(
              decision.retryAtMs!,
            );
          }
        }
      }),
      RUNS,
    );
  });

  test("describe the same quota as a peek right after the request", () => {
    fc.assert(
      fc.property(anyKey, anyHistory, (key, history) => {
        const { limiter } = playOn(key, history);
        const decision = limiter.request();
        expect(decision).toMatchObject(limiter.peek());
      }),
      RUNS,
    );
  });
});
