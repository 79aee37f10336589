import type QuickLRU from "quick-lru";
import { logEvent } from "../log.ts";
import type { Decision } from "../limits/decision.ts";
import type { DurableLimiter } from "./durable-limiter.ts";
import { keyIdOf, type Limiter, type LimitedKey } from "./limiter.ts";
import { Refusal } from "./refusal.ts";

/** The refusals that an isolate remembers, by the key's name. */
export type Refusals = QuickLRU<string, Refusal>;

/**
 * Asks the Durable Object only what is not known already: a key that was told to wait until some
 * time is refused here until then, at no cost but memory.
 */
export class RememberingLimiter implements Limiter {
  readonly #objects: DurableLimiter;
  readonly #refusals: Refusals;

  constructor(objects: DurableLimiter, refusals: Refusals) {
    this.#objects = objects;
    this.#refusals = refusals;
  }

  /** Whether a request would surely be refused, as far as is known without a call. */
  isRefusing(key: LimitedKey): boolean {
    return this.#standingRefusal(key, Date.now()) !== null;
  }

  async admit(key: LimitedKey): Promise<Decision> {
    const askedMs = Date.now();
    const refusal = this.#standingRefusal(key, askedMs);
    const repeated = refusal?.repeat(askedMs);
    if (repeated != null) return repeated;
    if (!this.#objects.mayAsk(key)) {
      if (refusal === null) throw new Error("Not called, because a call has just failed.");
      return refusal.repeatUnreported(askedMs);
    }
    try {
      return await this.#ask(key, askedMs);
    } catch (error) {
      // A refused client stays refused even when its strikes cannot be reported.
      const nowMs = Date.now();
      const standing = this.#standingRefusal(key, nowMs);
      if (standing === null) throw error;
      logEvent({ event: "refusals_unreported", keyId: keyIdOf(key.name), error });
      return standing.decisionAt(nowMs);
    }
  }

  async #ask(key: LimitedKey, askedMs: number): Promise<Decision> {
    const unreported = this.#refusals.get(key.name)?.takeUnreported(askedMs);
    const decision = await this.#objects.admit(key, unreported);
    if (decision.admitted) {
      this.#refusals.delete(key.name);
      return decision;
    }
    const refusal = new Refusal(decision, key, askedMs, Date.now());
    // Others may have been refused from memory while the object was asked.
    const earlier = this.#refusals.get(key.name);
    this.#refusals.set(key.name, earlier === undefined ? refusal : refusal.takeOver(earlier));
    return decision;
  }

  #standingRefusal(key: LimitedKey, nowMs: number): Refusal | null {
    const refusal = this.#refusals.get(key.name);
    return refusal?.standsAt(nowMs, key) ? refusal : null;
  }
}
