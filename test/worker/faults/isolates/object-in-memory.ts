import type { BanPolicy } from "../../../../src/worker/limits/bans.ts";
import {
  type AdmitRequest,
  decideOnce,
  mustStore,
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
import { newestToStore } from "../../../../src/worker/rate-limit/answered-requests.ts";
import { readObjectState, toStored } from "../../../../src/worker/rate-limit/stored-state.ts";
import { windowEndMs } from "../../../../src/worker/limits/windows.ts";

/** A simulated Durable Object of one key. Each call has the current time as a parameter. */
export class ObjectInMemory {
  readonly #bans: BanPolicy;
  #state: ObjectState = { limiter: null, answered: "" };
  #stored: unknown = undefined;

  constructor(bans: BanPolicy) {
    this.#bans = bans;
  }

  get limiter(): LimiterState | null {
    return this.#state.limiter;
  }

  admit(request: AdmitRequest, nowMs: number) {
    const before = this.limiter;
    const decided = decideOnce(this.#state, request, this.#bans, nowMs);
    this.#state = decided.state;
    const { limiter, answered } = this.#state;
    if (limiter !== null && mustStore(before, limiter)) {
      this.#stored = structuredClone({ ...toStored(limiter), answered: newestToStore(answered) });
    }
    return decided;
  }

  peek(policy: QuotaPolicy, nowMs: number): Quota {
    return peek(this.limiter, policy, this.#bans, nowMs);
  }

  /** Returns the decision on a request at `nowMs`, without counting the request. */
  foresee(policy: QuotaPolicy, nowMs: number): Decision {
    return decide(this.limiter, policy, this.#bans, nowMs).decision;
  }

  /**
   * Returns, for each window that ended in the last `whileMs` milliseconds, the decision on a
   * request just before that end.
   */
  foreseeBefore(policy: QuotaPolicy, nowMs: number, whileMs: number): Decision[] {
    const { minute, day } = this.limiter ?? { minute: null, day: null };
    return [
      ...(minute === null ? [] : [windowEndMs("minute", minute)]),
      ...(day === null ? [] : [windowEndMs("day", day)]),
    ]
      .filter((endMs) => endMs <= nowMs && endMs > nowMs - whileMs)
      .map((endMs) => this.foresee(policy, endMs - 1));
  }

  /** Simulates an eviction: everything that is not stored is lost. */
  evict(): void {
    this.#state = readObjectState(this.#stored);
  }
}
