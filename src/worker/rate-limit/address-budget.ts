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

/** Addresses that an isolate remembers: a few megabytes. */
const MAX_ADDRESSES = 10_000;

const POLICY: QuotaPolicy = { limits: PLAN_LIMITS.free, revision: 0, resets: 0, bans: false };

/**
 * Counts the failed authentications of each client address in the isolate's memory. A stranger
 * therefore causes no storage and no call. In return, each isolate counts for itself, and a restart
 * forgets the counts.
 */
export class AddressBudget {
  readonly #bans: BanPolicy;
  readonly #states: QuickLRU<string, LimiterState>;

  /** @param maxAddresses addresses to remember; the longest unused are forgotten first. */
  constructor(bans: BanPolicy, maxAddresses = MAX_ADDRESSES) {
    this.#bans = bans;
    this.#states = new QuickLRU({ maxSize: maxAddresses });
  }

  /** Counts one failed authentication if every window has room. */
  admit(address: string): Decision {
    const before = this.#states.get(address) ?? null;
    const { state, decision } = decide(before, POLICY, this.#bans, Date.now());
    this.#states.set(address, state);
    return decision;
  }

  /** Returns what is left of the address's budget, and counts nothing. */
  peek(address: string): Quota {
    return peek(this.#states.get(address) ?? null, POLICY, this.#bans, Date.now());
  }
}
