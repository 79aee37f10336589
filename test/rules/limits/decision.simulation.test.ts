import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/rules/config.ts";
import { BAN_MODES, banAt } from "../../../src/rules/limits/bans.ts";
import { decide, peek, quotaLater } from "../../../src/rules/limits/decision.ts";
import { type QuotaPolicy, stateEndMs } from "../../../src/rules/limits/limiter-state.ts";
import type { WaitReport } from "../../../src/rules/limits/strikes.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../support/clock.ts";
import { DocumentedRules } from "./documented-rules.ts";
import { anyBanVars, event, oneOf, step, type Step, upTo } from "./histories.ts";
import { keyPolicy, SimulatedLimiter } from "./simulated-limiter.ts";

/** Small limits, so that short histories fill both windows. */
const anyLimits = fc.record({ perMinute: upTo(8), perDay: upTo(25) });

const anyKey = fc.record({
  policy: anyLimits.map(({ perMinute, perDay }) => keyPolicy(perMinute, perDay)),
  bans: anyBanVars.map((vars) => parseConfig(vars).bans),
});

/** Calls `expect` only if the values differ, because `expect` is slower than a decision. */
function expectSame(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toStrictEqual(expected);
}

class ComparedLimiter extends SimulatedLimiter {
  readonly rules = new DocumentedRules();

  override decide(policy: QuotaPolicy, report: WaitReport | null = null) {
    const { bans, nowMs } = this;
    const decided = super.decide(policy, report);
    const { decision, state, strikes, newBan } = decided;
    expectSame({ decision, strikes, newBan }, this.rules.request(policy, bans, nowMs, report));
    const { standsUntilMs: _, strikes: __, admitted: ___, ...quota } = decision;
    expectSame(peek(state, policy, bans, nowMs), quota);
    return decided;
  }

  change(changes: Partial<QuotaPolicy>): void {
    this.policy = { ...this.policy, ...changes, revision: this.policy.revision + 1 };
  }

  restart(): void {
    this.rules.restart();
    if (this.state !== null) this.state = { ...this.state, wait: null };
  }
}

const requests = step(
  "requests",
  fc.record({ times: upTo(12), gapMs: fc.oneof(fc.constant(0), upTo(3_000)) }),
  (limiter: ComparedLimiter, { times, gapMs }) => {
    for (let n = 0; n < times; n++) limiter.advance(n === 0 ? 0 : gapMs).request();
  },
);

/** A request with which an isolate reports refusals, at the latest a few seconds old. */
const reports = step(
  "report",
  fc.record({ waitedMs: fc.nat(70_000), strikes: fc.nat(3), oldestStrikeAgeMs: fc.nat(5_000) }),
  (limiter: ComparedLimiter, { waitedMs, ...report }) => {
    limiter.decide(limiter.policy, { ...report, ageMs: waitedMs + report.oldestStrikeAgeMs });
  },
);

const someTime = fc.oneof(fc.nat(5_000), fc.constantFrom(2_000, HOUR_MS, 3 * DAY_MS));
const passage = step("pass time", someTime, (limiter: ComparedLimiter, ms) => {
  limiter.advance(ms);
});

/** After it, a window, the grace, a series of strikes, a ban or its memory has just (not) ended. */
const period = step(
  "pass a period",
  fc.record({ index: fc.nat(5), offsetMs: fc.constantFrom(-1, 0, 1) }),
  (limiter: ComparedLimiter, { index, offsetMs }) => {
    const { graceMs, strikeWindowMs, firstBanMs, forgetAfterMs } = limiter.bans;
    const periodsMs = [MINUTE_MS, DAY_MS, graceMs, strikeWindowMs, firstBanMs, forgetAfterMs];
    limiter.advance(periodsMs[index]! + offsetMs);
  },
);

const changes = fc.oneof<fc.Arbitrary<Step<ComparedLimiter>>[]>(
  step("change the plan", anyLimits, (limiter, limits) => limiter.change({ limits })),
  step("deploy other limits", anyLimits, (limiter, limits) => {
    limiter.policy = { ...limiter.policy, limits };
  }),
  step("set the ban mode", fc.constantFrom(...BAN_MODES), (limiter, mode) => {
    limiter.bans = { ...limiter.bans, mode };
  }),
  step(
    "request under an outdated version of the key",
    fc.record({ limits: anyLimits, resets: fc.nat(1) }),
    (limiter, { limits, resets }) => {
      limiter.request();
      const { revision, resets: latest } = limiter.policy;
      limiter.decide({ limits, revision: revision - 1, resets: Math.max(0, latest - resets) });
    },
  ),
  event("reset", (limiter) => limiter.change({ resets: limiter.policy.resets + 1 })),
  event("restart", (limiter) => limiter.restart()),
);

/** Windows, bans and waits begin again. */
const setBack = step(
  "set the clock back",
  fc.oneof(fc.nat(5_000), fc.nat(MINUTE_MS), fc.constantFrom(HOUR_MS, 3 * DAY_MS)),
  (limiter: ComparedLimiter, ms) => void limiter.advance(-ms),
);

const anyHistory = fc.array(
  oneOf([8, requests], [4, reports], [3, passage], [5, period], [2, setBack], [3, changes]),
  { maxLength: 40, size: "max" },
);

test("in any history of a key, also of a clock that is set back, the windows, waits, strikes and bans are those of docs/limits.md; a client that waits until the announced time is admitted, and no earlier; a quota can be moved to a later time, and the state has an effect until its end", () => {
  let seenBans = 0;
  fc.assert(
    fc.property(anyKey, anyHistory, fc.nat({ max: 2 * DAY_MS }), (key, history, laterMs) => {
      const limiter = new ComparedLimiter(key.policy, key.bans);
      for (const one of history) void one.play(limiter);
      seenBans += limiter.state?.ban?.number ?? 0;
      const decision = limiter.request();
      const { policy, bans, nowMs } = limiter;
      const { retryAtMs } = decision;
      const decideAt = (ms: number, of = limiter.state) => decide(of, policy, bans, ms).decision;
      if (retryAtMs !== null) {
        const isAdmitted = [retryAtMs - 1, retryAtMs].map((ms) => decideAt(ms).admitted);
        expect(isAdmitted).toEqual([false, true]);
      }
      const state = { ...limiter.state!, wait: null };
      for (const atMs of [nowMs + laterMs, decision.minute.endsMs, decision.minute.endsMs - 1]) {
        const { admitted, standsUntilMs, strikes, ...moved } = quotaLater(decision, atMs);
        expect(moved).toEqual(peek(state, policy, bans, atMs));
        expect(decision).toMatchObject({ admitted, standsUntilMs, strikes });
      }
      const inMode = { ...bans, mode: state.ban?.loggedOnly ? "log" : "on" } as const;
      const hasEffect = (ms: number) =>
        !isDeepStrictEqual(decideAt(ms, state), decideAt(ms, null)) ||
        banAt(state.ban, inMode, ms) !== null;
      const endMs = stateEndMs(state, bans);
      expect([hasEffect(endMs - 1), hasEffect(endMs)]).toEqual([true, false]);
    }),
    { numRuns: 500 },
  );
  expect(seenBans).toBeGreaterThan(200);
});
