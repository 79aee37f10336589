import pRetry from "p-retry";
import type { CircuitBreaker } from "../circuit-breaker.ts";
import { withDeadline } from "../deadline.ts";
import type { Decision, QuotaPolicy } from "../limits/decision.ts";
import type { RateLimiter } from "./durable-object.ts";
import type { LimitedKey } from "./limiter.ts";
import { LimiterOverloadedError } from "./limiter-overloaded-error.ts";
import type { UnreportedRefusals } from "./refusal.ts";

const NO_REFUSALS: UnreportedRefusals = { agesMs: [], count: 0 };

/** The last characters of a UUID: 48 random bits. The object compares a nonce with 200 others only. */
const NONCE_LENGTH = 12;

/**
 * Calls the exact limiter: one Durable Object for each key. A call costs a round trip to one place
 * in the world, which is the price of exact counts.
 */
export class DurableLimiter {
  readonly #objects: DurableObjectNamespace<RateLimiter>;
  readonly #timeoutMs: number;
  readonly #breaker: CircuitBreaker;

  /** @param breaker is shared by all requests of the isolate. */
  constructor(
    objects: DurableObjectNamespace<RateLimiter>,
    timeoutMs: number,
    breaker: CircuitBreaker,
  ) {
    this.#objects = objects;
    this.#timeoutMs = timeoutMs;
    this.#breaker = breaker;
  }

  /** Returns whether to call the object now. If so, `admit` must follow. */
  mayAsk(key: LimitedKey): boolean {
    return this.#breaker.allows(key.name, Date.now());
  }

  /**
   * Calls the object, and repeats the call if the failure may pass. The object counts the request
   * once, because every attempt carries the same nonce.
   *
   * @param refused requests that the isolate refused since its last report to the object.
   * @throws {LimiterOverloadedError}
   * @throws {Error} if the object cannot be reached in time.
   */
  async admit(key: LimitedKey, refused: UnreportedRefusals = NO_REFUSALS): Promise<Decision> {
    const policy = policyOf(key);
    const { agesMs, count } = refused;
    const nonce = crypto.randomUUID().slice(-NONCE_LENGTH);
    const place = key.locationHint ? { locationHint: key.locationHint } : undefined;
    try {
      // A new stub for every attempt, because a stub that has thrown may be broken for good.
      const decision = await this.#call(async () =>
        this.#objects.getByName(key.name, place).admit(policy, agesMs, count, nonce),
      );
      this.#breaker.succeeded(key.name);
      return decision;
    } catch (error) {
      if (!isOverloaded(error)) {
        this.#breaker.failed(key.name, Date.now());
        throw error;
      }
      this.#breaker.succeeded(key.name);
      throw new LimiterOverloadedError(error);
    }
  }

  async #call<T>(attempt: () => Promise<T>): Promise<T> {
    const calls = attempt().catch((error: unknown) => {
      if (!isRetryable(error)) throw error;
      // p-retry begins with the attempt that has already failed.
      return pRetry((number) => (number === 1 ? Promise.reject(error) : attempt()), {
        retries: 2,
        minTimeout: 50,
        randomize: true,
        maxRetryTime: this.#timeoutMs,
        shouldRetry: (context) => isRetryable(context.error),
      });
    });
    return withDeadline(calls, this.#timeoutMs);
  }
}

function policyOf({ limits, revision, resets, bans }: LimitedKey): QuotaPolicy {
  return { limits, revision, resets, bans };
}

/** Returns whether another attempt may succeed. A retry only makes an overloaded object worse. */
function isRetryable(error: unknown): boolean {
  return Object(error).retryable === true && !isOverloaded(error);
}

function isOverloaded(error: unknown): boolean {
  return Object(error).overloaded === true;
}
