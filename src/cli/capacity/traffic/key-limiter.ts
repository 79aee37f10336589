import type { BanPolicy } from "../../../rate-limit/bans.ts";
import {
  type Decision,
  decide,
  type LimiterRecord,
  type QuotaPolicy,
} from "../../../rate-limit/decision.ts";
import type { Limits } from "../../../rate-limit/plans.ts";
import { Refusal } from "../../../rate-limit/refusal.ts";

/** What a simulated limiter has been asked. */
export interface LimiterCounts {
  admitted: number;
  /** Refused by the object; and by an isolate, from memory. */
  refusedByObject: number;
  refusedFromMemory: number;
  /** Of both, those under a ban. */
  refusedByBan: number;
  bans: number;
}

/** One key's object and the isolate that remembers what it refused: the service's own decisions. */
export class KeyLimiter {
  readonly counts: LimiterCounts = {
    admitted: 0,
    refusedByObject: 0,
    refusedFromMemory: 0,
    refusedByBan: 0,
    bans: 0,
  };
  readonly #policy: QuotaPolicy;
  readonly #banPolicy: BanPolicy;
  #record: LimiterRecord | null = null;
  #refusal: Refusal | null = null;

  constructor(limits: Limits, banPolicy: BanPolicy) {
    this.#policy = { limits, revision: 0, resets: 0, bans: true };
    this.#banPolicy = banPolicy;
  }

  request(nowMs: number): Decision {
    const isStanding = this.#refusal?.standsAt(nowMs, this.#policy) ?? false;
    const repeated = isStanding ? (this.#refusal?.repeat(nowMs) ?? null) : null;
    if (repeated !== null) {
      this.#countRefusals(repeated, 1, "refusedFromMemory");
      return repeated;
    }
    const { agesMs } = this.#refusal?.takeUnreported(nowMs) ?? { agesMs: [] };
    const refusedMs = agesMs.map((ageMs) => nowMs - ageMs);
    const { record, decision, bans } = decide(
      this.#record,
      this.#policy,
      this.#banPolicy,
      nowMs,
      refusedMs,
    );
    this.#record = record;
    this.counts.bans += bans;
    if (decision.admitted) {
      this.#refusal = null;
      this.counts.admitted += 1;
    } else {
      this.#refusal = new Refusal(decision, this.#policy, nowMs, nowMs);
      this.#countRefusals(decision, 1, "refusedByObject");
    }
    return decision;
  }

  /** Counts requests that come so soon after `decision`, a ban, that memory answers all of them. */
  repeat(decision: Decision, times: number): void {
    this.#countRefusals(decision, times, "refusedFromMemory");
  }

  #countRefusals(
    { banned }: Decision,
    times: number,
    by: "refusedByObject" | "refusedFromMemory",
  ): void {
    this.counts[by] += times;
    if (banned) this.counts.refusedByBan += times;
  }
}
