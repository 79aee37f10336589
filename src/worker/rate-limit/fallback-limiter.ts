import QuickLRU from "quick-lru";
import type { BanPolicy } from "../limits/bans.ts";
import { type Decision, decide, type LimiterState } from "../limits/decision.ts";
import type { Limiter, LimitedKey } from "./limiter.ts";

/**
 * Limits keys in the isolate's memory while their Durable Objects cannot be reached. Each isolate
 * counts separately, so more requests than the limit can be admitted.
 */
export class FallbackLimiter implements Limiter {
  readonly #states: QuickLRU<string, LimiterState>;
  readonly #bans: BanPolicy;

  /**
   * @param size the number of keys to remember. The least recently used ones are forgotten first.
   */
  constructor(bans: BanPolicy, size: number) {
    this.#bans = bans;
    this.#states = new QuickLRU({ maxSize: size });
  }

  async admit(key: LimitedKey): Promise<Decision> {
    const before = this.#states.get(key.name) ?? null;
    const { state, decision } = decide(before, key, this.#bans, Date.now());
    this.#states.set(key.name, state);
    return decision;
  }
}
