import pRetry from "p-retry";
import type { CircuitBreaker } from "../circuit-breaker.ts";
import { withDeadline } from "../deadline.ts";
import type { Decision, QuotaPolicy } from "../limits/decision.ts";
import type { RateLimiter } from "./durable-object.ts";
import type { LimitedKey } from "./limiter.ts";
import { LimiterOverloadedError } from "./limiter-overloaded-error.ts";
import type { UnreportedRefusals } from "./refusal.ts";

const NO_REFUSALS: UnreportedRefusals = { agesMs: [], count: 0 };

/**
 * The number of characters in a nonce. A nonce is the end of a UUID and has 48 random bits. These
 * are enough, because the Durable Object compares a nonce with only 200 others.
 */
const NONCE_LENGTH = 12;

/**
 * Calls the exact limiter: one Durable Object for each key. Exact counts have a price: each call
 * needs a round trip to the one place in the world where the key's Durable Object runs.
 */
export class DurableLimiter {
  readonly #objects: DurableObjectNamespace<RateLimiter>;
  readonly #timeoutMs: number;
  readonly #breaker: CircuitBreaker;

  /** @param breaker the circuit breaker that all requests of the isolate share. */
  constructor(
    objects: DurableObjectNamespace<RateLimiter>,
    timeoutMs: number,
    breaker: CircuitBreaker,
  ) {
    this.#objects = objects;
    this.#timeoutMs = timeoutMs;
    this.#breaker = breaker;
  }

  /**
   * Returns whether to call the key's Durable Object now. If true, the caller must then call
   * `admit`, because this call may be the probe of the circuit breaker.
   */
  mayAsk(key: LimitedKey): boolean {
    return this.#breaker.allows(key.name, Date.now());
  }

  /**
   * Calls the key's Durable Object, and retries after a temporary failure. The Durable Object
   * counts the request only once, because every attempt has the same nonce.
   *
   * @param refused the requests that the isolate refused from memory since its last report.
   * @throws {LimiterOverloadedError} if the Durable Object is overloaded.
   * @throws {Error} if the Durable Object cannot be reached in time.
   */
  async admit(key: LimitedKey, refused: UnreportedRefusals = NO_REFUSALS): Promise<Decision> {
    const policy = policyOf(key);
    const { agesMs, count } = refused;
    const nonce = crypto.randomUUID().slice(-NONCE_LENGTH);
    const place = key.locationHint ? { locationHint: key.locationHint } : undefined;
    try {
      // Every attempt gets a new stub, because a stub that has thrown may be permanently broken.
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
      // The first attempt has already failed. Attempt 1 here only rethrows its error, so that
      // pRetry waits before attempt 2.
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

/**
 * Returns whether a retry may succeed. An overloaded Durable Object is not retried, because that
 * would increase its load.
 */
function isRetryable(error: unknown): boolean {
  return Object(error).retryable === true && !isOverloaded(error);
}

function isOverloaded(error: unknown): boolean {
  return Object(error).overloaded === true;
}
