import type QuickLRU from "quick-lru";
import type { Decision, Quota } from "./decision.ts";
import type { DurableLimiter } from "./durable-limiter.ts";
import type { Limiter, Subject } from "./limiter.ts";
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

  isRefusing(subject: Subject): boolean {
    return this.#refusals.get(subject.name)?.standsAt(Date.now(), subject) ?? false;
  }

  async admit(subject: Subject): Promise<Decision> {
    const askedMs = Date.now();
    const refusal = this.#refusals.get(subject.name);
    const isStanding = refusal?.standsAt(askedMs, subject) ?? false;
    const repeated = isStanding ? refusal?.repeat(askedMs) : null;
    if (repeated != null) return repeated;

    const ages = isStanding ? refusal?.takeUnreportedAgesMs(askedMs) : undefined;
    const decision = await this.#objects.admit(subject, ages);
    if (decision.admitted) this.#refusals.delete(subject.name);
    else this.#refusals.set(subject.name, new Refusal(decision, subject, askedMs, Date.now()));
    return decision;
  }

  peek(subject: Subject): Promise<Quota> {
    return this.#objects.peek(subject);
  }
}
