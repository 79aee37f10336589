import QuickLRU from "quick-lru";
import type { BanPolicy } from "../limits/bans.ts";
import { type Decision, decide, type LimiterState } from "../limits/decision.ts";
import type { Limiter, LimitedKey } from "./limiter.ts";

/** The same decision in the isolate's memory: approximate, for the time without Durable Objects. */
export class FallbackLimiter implements Limiter {
  readonly #records: QuickLRU<string, LimiterState>;
  readonly #bans: BanPolicy;

  /** @param size the most subjects to remember. */
  constructor(bans: BanPolicy, size: number) {
    this.#bans = bans;
    this.#records = new QuickLRU({ maxSize: size });
  }

  async admit(key: LimitedKey): Promise<Decision> {
    const { record, decision } = decide(
      this.#records.get(key.name) ?? null,
      key,
      this.#bans,
      Date.now(),
    );
    this.#records.set(key.name, record);
    return decision;
  }
}
