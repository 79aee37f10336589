import type { BanPolicy } from "../../../src/rate-limit/bans.ts";
import {
  type Decision,
  decide,
  type LimiterRecord,
  peek,
  type Quota,
  type QuotaPolicy,
} from "../../../src/rate-limit/decision.ts";
import { windowEndMs } from "../../../src/rate-limit/windows.ts";
import { readRecord, type StoredRecord, toStored } from "../../../src/rate-limit/stored-record.ts";

/** One Durable Object of the limiter, told the time with every call. */
export class ObjectInMemory {
  readonly #bans: BanPolicy;
  record: LimiterRecord | null = null;
  #stored: StoredRecord | null = null;

  constructor(bans: BanPolicy) {
    this.#bans = bans;
  }

  admit(policy: QuotaPolicy, refusedAgesMs: readonly number[], nowMs: number): Decision {
    const refusedMs = refusedAgesMs.map((ageMs) => nowMs - ageMs);
    const { record, decision } = decide(this.record, policy, this.#bans, nowMs, refusedMs);
    if (decision.admitted || record.ban !== (this.record?.ban ?? null)) {
      this.#stored = structuredClone(toStored(record));
    }
    this.record = record;
    return decision;
  }

  peek(policy: QuotaPolicy, nowMs: number): Quota {
    return peek(this.record, policy, this.#bans, nowMs);
  }

  /** What a request would be answered now. */
  foresee(policy: QuotaPolicy, nowMs: number): Decision {
    return decide(this.record, policy, this.#bans, nowMs).decision;
  }

  /** What a request would have been answered before each window that ended in the last while. */
  foreseeBefore(policy: QuotaPolicy, nowMs: number, whileMs: number): Decision[] {
    const { minute, day } = this.record ?? { minute: null, day: null };
    return [
      ...(minute === null ? [] : [windowEndMs("minute", minute)]),
      ...(day === null ? [] : [windowEndMs("day", day)]),
    ]
      .filter((endMs) => endMs <= nowMs && endMs > nowMs - whileMs)
      .map((endMs) => this.foresee(policy, endMs - 1));
  }

  /** Loses what is not stored. */
  evict(): void {
    this.record = readRecord(this.#stored);
  }
}
