import type { Decision } from "../limits/decision.ts";
import type { Outage } from "../outage.ts";
import { keyIdOf, type Limiter, type LimitedKey } from "./limiter.ts";
import { LimiterOverloadedError } from "./limiter-overloaded-error.ts";
import type { RememberingLimiter } from "./remembering-limiter.ts";

/** The fallback limiter of an isolate, and the outages that the isolate logs. */
interface Fallback {
  readonly limiter: Limiter;
  /** Lasts while the fallback limiter decides. */
  readonly outage: Outage;
  /** Lasts while objects are overloaded. */
  readonly overload: Outage;
}

/**
 * The limiter of one request. Falls back to the fallback limiter if the exact limiter cannot be
 * reached: answers continue, at the price of approximate counts.
 */
export class RequestLimiter implements Limiter {
  readonly #limiter: RememberingLimiter;
  readonly #fallback: Fallback;
  readonly #requestId: string;
  #usedFallback = false;
  #isOverloaded = false;

  constructor(limiter: RememberingLimiter, fallback: Fallback, requestId: string) {
    this.#limiter = limiter;
    this.#fallback = fallback;
    this.#requestId = requestId;
  }

  /** True if the fallback limiter decided on this request. */
  get usedFallback(): boolean {
    return this.#usedFallback;
  }

  /** True if nobody decided on this request, because the exact limiter is overloaded. */
  get isOverloaded(): boolean {
    return this.#isOverloaded;
  }

  isRefusing(key: LimitedKey): boolean {
    return this.#limiter.isRefusing(key);
  }

  admit(key: LimitedKey): Promise<Decision> {
    const { limiter, outage, overload } = this.#fallback;
    return this.#limiter.admit(key).then(
      (decision) => {
        // A refusal may come from the isolate's memory, so it does not prove that the object answers.
        if (decision.admitted) {
          outage.answered();
          overload.answered();
        }
        return decision;
      },
      (error: unknown) => {
        this.#isOverloaded = error instanceof LimiterOverloadedError;
        this.#usedFallback = !this.#isOverloaded;
        const failing = this.#isOverloaded ? overload : outage;
        failing.failed({ requestId: this.#requestId, keyId: keyIdOf(key.name), error });
        // An overloaded object still counts. A second count beside it would admit too many.
        if (this.#isOverloaded) throw error;
        return limiter.admit(key);
      },
    );
  }
}
