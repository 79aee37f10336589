import QuickLRU from "quick-lru";
import type { BanPolicy } from "../limits/bans.ts";
import { type Decision, decide, type LimiterRecord } from "../limits/decision.ts";
import type { Limiter, Subject } from "./limiter.ts";

/** The same decision in the isolate's memory: approximate, for the time without Durable Objects. */
export class InsuranceLimiter implements Limiter {
  readonly #records: QuickLRU<string, LimiterRecord>;
  readonly #bans: BanPolicy;

  /** @param size the most subjects to remember. */
  constructor(bans: BanPolicy, size: number) {
    this.#bans = bans;
    this.#records = new QuickLRU({ maxSize: size });
  }

  async admit(subject: Subject): Promise<Decision> {
    const { record, decision } = decide(
      this.#records.get(subject.name) ?? null,
      subject,
      this.#bans,
      Date.now(),
    );
    this.#records.set(subject.name, record);
    return decision;
  }
}
