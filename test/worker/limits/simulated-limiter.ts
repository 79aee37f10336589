import type { BanPolicy } from "../../../src/worker/limits/bans.ts";
import {
  type Decision,
  decide,
  type LimiterState,
  peek,
  type Quota,
  type QuotaPolicy,
} from "../../../src/worker/limits/decision.ts";
import { readLimiterState, toStored } from "../../../src/worker/rate-limit/stored-state.ts";

/** Where simulated time begins, in Unix milliseconds: on a whole second. */
export const START_MS = 1_800_000_000_000;

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

/** The default numbers, written out here so that the tests do not take them from the code. */
export const CONTRACT_BANS: BanPolicy = {
  graceMs: 10_000,
  strikeWindowMs: 60_000,
  minStrikes: 60,
  maxStrikes: 1_000,
  firstBanMs: 60_000,
  longestBanMs: DAY_MS,
  forgetAfterMs: DAY_MS,
};

/** The policy of a key with these limits. */
export function keyPolicy(perMinute: number, perDay: number): QuotaPolicy {
  return { limits: { perMinute, perDay }, revision: 1, resets: 0, bans: true };
}

/** One key's limiter under a clock that the test moves. */
export class SimulatedLimiter {
  policy: QuotaPolicy;
  readonly bans: BanPolicy;
  nowMs = START_MS;
  record: LimiterState | null = null;

  constructor(policy: QuotaPolicy, bans: BanPolicy = CONTRACT_BANS) {
    this.policy = policy;
    this.bans = bans;
  }

  /** Sets the clock to so many milliseconds after the start. */
  at(offsetMs: number): this {
    this.nowMs = START_MS + offsetMs;
    return this;
  }

  advance(ms: number): this {
    this.nowMs += ms;
    return this;
  }

  request(): Decision {
    const { record, decision } = decide(this.record, this.policy, this.bans, this.nowMs);
    this.record = record;
    return decision;
  }

  /** So many requests, the clock moving between them but not after the last. */
  requests(count: number, gapMs = 0): Decision[] {
    return Array.from({ length: count }, (_, index) => {
      if (index > 0) this.advance(gapMs);
      return this.request();
    });
  }

  peek(): Quota {
    return peek(this.record, this.policy, this.bans, this.nowMs);
  }

  /** Forgets what is not stored, as an eviction does. */
  restart(): this {
    if (this.record !== null)
      this.record = readLimiterState(structuredClone(toStored(this.record)));
    return this;
  }
}
