import type { Outage } from "../outage.ts";
import type { Decision } from "../limits/decision.ts";
import { keyIdOf, type Limiter, type LimitedKey } from "./limiter.ts";
import { LimiterOverloadedError } from "./limiter-overloaded-error.ts";
import type { RememberingLimiter } from "./remembering-limiter.ts";

/** The limiters of an isolate and what is logged of them, shared by all of its requests. */
export interface Fallback {
  /** Decides when the exact limiter cannot be reached. */
  readonly limiter: Limiter;
  readonly outage: Outage;
  readonly overload: Outage;
}

/** The limiter of one request. Falls back to the insurance limiter when the exact one cannot be reached. */
export class RequestLimiter implements Limiter {
  readonly #limiter: RememberingLimiter;
  readonly #fallback: Fallback;
  readonly #requestId: string;
  #usedFallback = false;
  #isOverloaded = false;

  constructor(limiter: RememberingLimiter, insurance: Fallback, requestId: string) {
    this.#limiter = limiter;
    this.#fallback = insurance;
    this.#requestId = requestId;
  }

  /** Whether the insurance limiter has decided on this request. */
  get usedFallback(): boolean {
    return this.#usedFallback;
  }

  /** Whether nobody has decided on this request, because the exact limiter is overloaded. */
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
        // A refusal may come from the isolate's memory.
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
        // An overloaded object goes on counting, so that a second count beside it would admit too many.
        if (this.#isOverloaded) throw error;
        return limiter.admit(key);
      },
    );
  }
}
