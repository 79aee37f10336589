import type QuickLRU from "quick-lru";
import type { Decision } from "../limits/decision.ts";
import { logEvent } from "../log.ts";
import type { DurableLimiter } from "./durable-limiter.ts";
import { keyIdOf, type Limiter, type LimitedKey } from "./limiter.ts";
import { Refusal } from "./refusal.ts";

/** The refusals that an isolate remembers, by `LimitedKey.name`. */
export type Refusals = QuickLRU<string, Refusal>;

/**
 * Repeats a refusal from the isolate's memory until the refusal expires; otherwise calls the key's
 * Durable Object. So a flood of refused requests costs almost nothing. The drawback: if requests to
 * other isolates lead to a ban, this isolate learns of the ban late.
 */
export class RememberingLimiter implements Limiter {
  readonly #objects: DurableLimiter;
  readonly #refusals: Refusals;

  constructor(objects: DurableLimiter, refusals: Refusals) {
    this.#objects = objects;
    this.#refusals = refusals;
  }

  /**
   * Returns whether a remembered refusal shows that the limiter would certainly refuse a request.
   */
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
      // Repeat a refusal that still lasts. If this method threw instead, the fallback limiter might
      // admit the client.
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
    // Keep the refusals that the isolate decided from memory during the call; they are unreported.
    const earlier = this.#refusals.get(key.name);
    this.#refusals.set(key.name, earlier === undefined ? refusal : refusal.takeOver(earlier));
    return decision;
  }

  #standingRefusal(key: LimitedKey, nowMs: number): Refusal | null {
    const refusal = this.#refusals.get(key.name);
    return refusal?.standsAt(nowMs, key) ? refusal : null;
  }
}
