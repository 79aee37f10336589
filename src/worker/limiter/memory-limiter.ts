import QuickLRU from "quick-lru";
import type { BanPolicy } from "../limit-rules/bans.ts";
import {
  type Decision,
  decide,
  type LimiterState,
  peek,
  type Quota,
  type QuotaPolicy,
} from "../limit-rules/decision.ts";
import { PLAN_LIMITS } from "../limit-rules/plans.ts";

/**
 * Counts in the isolate's memory, by name. Each isolate counts separately, and the counts are lost
 * when the isolate ends, so more requests than the limit can be admitted.
 */
export class MemoryLimiter {
  readonly #bans: BanPolicy;
  readonly #states: QuickLRU<string, LimiterState>;

  /** @param size the number of names to remember. The least recently used are forgotten first. */
  constructor(bans: BanPolicy, size: number) {
    this.#bans = bans;
    this.#states = new QuickLRU({ maxSize: size });
  }

  /** Decides on one request, and counts it if every window has room. */
  admit(name: string, policy: QuotaPolicy): Decision {
    const before = this.#states.get(name) ?? null;
    const { state, decision } = decide(before, policy, this.#bans, Date.now());
    this.#states.set(name, state);
    return decision;
  }

  /** Returns what is left, without counting a request. */
  peek(name: string, policy: QuotaPolicy): Quota {
    return peek(this.#states.get(name) ?? null, policy, this.#bans, Date.now());
  }
}

/** The number of addresses that an isolate remembers. They take a few megabytes. */
const MAX_ADDRESSES = 10_000;

const ADDRESS_POLICY: QuotaPolicy = {
  limits: PLAN_LIMITS.free,
  revision: 0,
  resets: 0,
  bans: false,
};

/**
 * Limits the failed authentications of each client address in the isolate's memory. So requests
 * without a valid key cause no write and no call to a Durable Object.
 */
export class AddressBudget {
  readonly #limiter: MemoryLimiter;

  /** @param maxAddresses the number of addresses to remember. */
  constructor(bans: BanPolicy, maxAddresses = MAX_ADDRESSES) {
    this.#limiter = new MemoryLimiter(bans, maxAddresses);
  }

  /**
   * Counts one failed authentication. The decision refuses it if the budget of the address has no
   * room.
   */
  countFailure(address: string): Decision {
    return this.#limiter.admit(address, ADDRESS_POLICY);
  }

  /** Returns what is left of the address's budget, without counting a failed authentication. */
  peek(address: string): Quota {
    return this.#limiter.peek(address, ADDRESS_POLICY);
  }
}
