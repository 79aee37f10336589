import type QuickLRU from "quick-lru";
import { logEvent } from "../log.ts";
import type { Decision } from "../limits/decision.ts";
import type { DurableLimiter } from "./durable-limiter.ts";
import { keyIdOf, type Limiter, type Subject } from "./limiter.ts";
import { Refusal } from "./refusal.ts";

/** The refusals that an isolate remembers, by the subject's name. */
export type Refusals = QuickLRU<string, Refusal>;

/**
 * Asks the Durable Object only what is not known already: a subject that was told to wait until some
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
  isRefusing(subject: Subject): boolean {
    return this.#standingRefusal(subject, Date.now()) !== null;
  }

  async admit(subject: Subject): Promise<Decision> {
    const askedMs = Date.now();
    const refusal = this.#standingRefusal(subject, askedMs);
    const repeated = refusal?.repeat(askedMs);
    if (repeated != null) return repeated;
    if (!this.#objects.mayAsk(subject)) {
      if (refusal === null) throw new Error("Not called, because a call has just failed.");
      return refusal.repeatUnreported(askedMs);
    }
    try {
      return await this.#ask(subject, askedMs);
    } catch (error) {
      // A refused client stays refused even when its strikes cannot be reported.
      const nowMs = Date.now();
      const standing = this.#standingRefusal(subject, nowMs);
      if (standing === null) throw error;
      logEvent({ event: "refusals_unreported", keyId: keyIdOf(subject.name), error });
      return standing.decisionAt(nowMs);
    }
  }

  async #ask(subject: Subject, askedMs: number): Promise<Decision> {
    const unreported = this.#refusals.get(subject.name)?.takeUnreported(askedMs);
    const decision = await this.#objects.admit(subject, unreported);
    if (decision.admitted) {
      this.#refusals.delete(subject.name);
      return decision;
    }
    const refusal = new Refusal(decision, subject, askedMs, Date.now());
    // Others may have been refused from memory while the object was asked.
    const earlier = this.#refusals.get(subject.name);
    this.#refusals.set(subject.name, earlier === undefined ? refusal : refusal.takeOver(earlier));
    return decision;
  }

  #standingRefusal(subject: Subject, nowMs: number): Refusal | null {
    const refusal = this.#refusals.get(subject.name);
    return refusal?.standsAt(nowMs, subject) ? refusal : null;
  }
}
