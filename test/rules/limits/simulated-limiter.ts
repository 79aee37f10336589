import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import { type Decided, type Decision, decide } from "../../../src/rules/limits/decision.ts";
import type { LimiterState, QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { WaitReport } from "../../../src/rules/limits/strikes.ts";
import { DAY_MS } from "../../support/clock.ts";

/** The start of simulated time in Unix milliseconds, a multiple of 1,000 for exact headers. */
export const START_MS = 1_800_000_000_000;

/** The default ban policy. Repeated here, so that a wrong default in the code fails the tests. */
export const DEFAULT_BANS: BanPolicy = {
  mode: "on",
  graceMs: 10_000,
  strikeWindowMs: 60_000,
  minStrikes: 60,
  maxStrikes: 1_000,
  firstBanMs: 60_000,
  longestBanMs: DAY_MS,
  forgetAfterMs: DAY_MS,
};

export function keyPolicy(perMinute: number, perDay: number): QuotaPolicy {
  return { limits: { perMinute, perDay }, revision: 1, resets: 0 };
}

export class SimulatedLimiter {
  policy: QuotaPolicy;
  bans: BanPolicy;
  nowMs = START_MS;
  state: LimiterState | null = null;

  constructor(policy: QuotaPolicy, bans: BanPolicy = DEFAULT_BANS) {
    this.policy = policy;
    this.bans = bans;
  }

  advance(ms: number): this {
    this.nowMs += ms;
    return this;
  }

  request(): Decision {
    return this.decide(this.policy).decision;
  }

  decide(policy: QuotaPolicy, report: WaitReport | null = null): Decided {
    const decided = decide(this.state, policy, this.bans, this.nowMs, report);
    this.state = decided.state;
    return decided;
  }
}
