import QuickLRU from "quick-lru";
import type { BanPolicy } from "../limits/bans.ts";
import {
  type Decision,
  decide,
  type LimiterState,
  peek,
  type Quota,
  type QuotaPolicy,
} from "../limits/decision.ts";
import { PLAN_LIMITS } from "../limits/plans.ts";

/** The number of addresses that an isolate remembers. They take a few megabytes. */
const MAX_ADDRESSES = 10_000;

const POLICY: QuotaPolicy = { limits: PLAN_LIMITS.free, revision: 0, resets: 0, bans: false };

/**
 * Limits the failed authentications of each client address, in the isolate's memory. So requests
 * without a valid key cause no write and no call to a Durable Object. The drawback: each isolate
 * counts separately, and the counts are lost when the isolate ends.
 */
export class AddressBudget {
  readonly #bans: BanPolicy;
  readonly #states: QuickLRU<string, LimiterState>;

  /**
   * @param maxAddresses the number of addresses to remember. The least recently used ones are
   *   forgotten first.
   */
  constructor(bans: BanPolicy, maxAddresses = MAX_ADDRESSES) {
    this.#bans = bans;
    this.#states = new QuickLRU({ maxSize: maxAddresses });
  }

  /** Counts one failed authentication if the budget of the address has room in every window. */
  admit(address: string): Decision {
    const before = this.#states.get(address) ?? null;
    const { state, decision } = decide(before, POLICY, this.#bans, Date.now());
    this.#states.set(address, state);
    return decision;
  }

  /** Returns what is left of the address's budget, without counting anything. */
  peek(address: string): Quota {
    return peek(this.#states.get(address) ?? null, POLICY, this.#bans, Date.now());
  }
}
