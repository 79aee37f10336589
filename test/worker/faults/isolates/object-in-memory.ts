import type { BanPolicy } from "../../../../src/worker/limits/bans.ts";
import {
  type AdmitRequest,
  decideOnce,
  type ObjectState,
} from "../../../../src/worker/rate-limit/decide-once.ts";
import {
  type Decision,
  decide,
  type LimiterState,
  peek,
  type Quota,
  type QuotaPolicy,
} from "../../../../src/worker/limits/decision.ts";
import { readObjectState, toStored } from "../../../../src/worker/rate-limit/stored-state.ts";
import { windowEndMs } from "../../../../src/worker/limits/windows.ts";

/** One Durable Object of the limiter, told the time with every call. */
export class ObjectInMemory {
  readonly #bans: BanPolicy;
  #state: ObjectState = { record: null, answered: "" };
  #stored: unknown = undefined;

  constructor(bans: BanPolicy) {
    this.#bans = bans;
  }

  get record(): LimiterState | null {
    return this.#state.record;
  }

  admit(request: AdmitRequest, nowMs: number) {
    const before = this.record;
    const decided = decideOnce(this.#state, request, this.#bans, nowMs);
    this.#state = decided.state;
    const { record, answered } = this.#state;
    if (record !== null && (decided.decision.admitted || record.ban !== (before?.ban ?? null))) {
      this.#stored = structuredClone({ ...toStored(record), answered });
    }
    return decided;
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
    this.#state = readObjectState(this.#stored);
  }
}
