import type { BanPolicy } from "../../../src/rules/limits/bans.ts";
import { type Decision, decide, peek, type Quota } from "../../../src/rules/limits/decision.ts";
import type { LimiterState, QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { WaitReport } from "../../../src/rules/limits/strikes.ts";
import { readState, toStored } from "../../../src/worker/limiter/stored-state.ts";
import type { Asked } from "./follows-the-rules.ts";
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

/** The limiter of one key, with a clock that the test moves. */
export class SimulatedLimiter {
  policy: QuotaPolicy;
  earlierPolicy: QuotaPolicy;
  bans: BanPolicy;
  nowMs = START_MS;
  state: LimiterState | null = null;
  /** What happened, if a test wants to know. */
  history: (Asked | "restart")[] | null = null;

  constructor(policy: QuotaPolicy, bans: BanPolicy = DEFAULT_BANS) {
    this.policy = this.earlierPolicy = policy;
    this.bans = bans;
  }

  change(changes: Partial<QuotaPolicy>): void {
    this.earlierPolicy = this.policy;
    this.policy = { ...this.policy, ...changes };
  }

  at(offsetMs: number): this {
    this.nowMs = START_MS + offsetMs;
    return this;
  }

  advance(ms: number): this {
    this.nowMs += ms;
    return this;
  }

  request(report: WaitReport | null = null): Decision {
    const { state, policy, bans, nowMs } = this;
    const decided = decide(state, policy, bans, nowMs, report);
    this.state = decided.state;
    this.history?.push({ policy, bans, nowMs, report, decided });
    return decided.decision;
  }

  peek(): Quota {
    return peek(this.state, this.policy, this.bans, this.nowMs);
  }

  /** Forgets everything that is not stored, like an eviction of the Durable Object. */
  restart(): void {
    this.history?.push("restart");
    if (this.state !== null) this.state = readState(toStored(this.state)).limiter;
  }
}
