import type { Decision } from "../limits/decision.ts";
import type { Outage } from "../outage.ts";
import { keyIdOf, type Limiter, type LimitedKey } from "./limiter.ts";
import { LimiterOverloadedError } from "./limiter-overloaded-error.ts";
import type { RememberingLimiter } from "./remembering-limiter.ts";

/** The fallback limiter of an isolate, and the trackers of the exact limiter's outages. */
interface Fallback {
  readonly limiter: Limiter;
  /** Tracks outages of Durable Objects, during which the fallback limiter decides. */
  readonly outage: Outage;
  /** Tracks overloads of Durable Objects. */
  readonly overload: Outage;
}

/**
 * The limiter of one request. Uses the fallback limiter if the exact limiter cannot be reached. So
 * the service stays available, but its counts are approximate.
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

  /** True if no limiter decided on this request, because the exact limiter is overloaded. */
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
        // Only an admission proves that the Durable Object responds: a refusal may come from the
        // isolate's memory.
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
        // Do not use the fallback limiter: an overloaded Durable Object still counts, so a second
        // limiter would admit too many requests.
        if (this.#isOverloaded) throw error;
        return limiter.admit(key);
      },
    );
  }
}
