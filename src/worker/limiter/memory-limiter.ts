import QuickLRU from "quick-lru";
import type { BanPolicy } from "../../rules/limits/bans.ts";
import { type Decision, decide, peek, type Quota } from "../../rules/limits/decision.ts";
import type { LimiterState, QuotaPolicy } from "../../rules/limits/limiter-state.ts";

/** A limiter in an isolate's memory. Several isolates together can admit more than the limit. */
export class MemoryLimiter {
  readonly #bans: BanPolicy;
  readonly #states: QuickLRU<string, LimiterState>;

  /** @param size the number of names to remember. The least recently used are forgotten first. */
  constructor(bans: BanPolicy, size: number) {
    this.#bans = bans;
    this.#states = new QuickLRU({ maxSize: size });
  }

  admit(name: string, policy: QuotaPolicy): Decision {
    const before = this.#states.get(name) ?? null;
    const { state, decision } = decide(before, policy, this.#bans, Date.now());
    this.#states.set(name, state);
    return decision;
  }

  /** Replaces what is known of a name. */
  learn(name: string, state: LimiterState): void {
    this.#states.set(name, state);
  }

  /** Returns the quota that is left, without counting a request. */
  peek(name: string, policy: QuotaPolicy): Quota {
    return peek(this.#states.get(name) ?? null, policy, this.#bans, Date.now());
  }
}
