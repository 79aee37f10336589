import pRetry from "p-retry";
import { withDeadline } from "../deadline.ts";
import type { Decision, Quota, QuotaPolicy } from "./decision.ts";
import type { RateLimiter } from "./durable-object.ts";
import type { Subject } from "./limiter.ts";
import type { UnreportedRefusals } from "./refusal.ts";

const NO_REFUSALS: UnreportedRefusals = { agesMs: [], count: 0 };

/** The limiter that is exact: one Durable Object for each subject. Rejects where it cannot be reached in time. */
export class DurableLimiter {
  readonly #objects: DurableObjectNamespace<RateLimiter>;
  readonly #timeoutMs: number;

  constructor(objects: DurableObjectNamespace<RateLimiter>, timeoutMs: number) {
    this.#objects = objects;
    this.#timeoutMs = timeoutMs;
  }

  /** @param refused requests refused that the object has not heard of. */
  admit(subject: Subject, refused: UnreportedRefusals = NO_REFUSALS): Promise<Decision> {
    const policy = policyOf(subject);
    const { agesMs, count } = refused;
    return this.#call(async () =>
      this.#objects.getByName(subject.name).admit(policy, agesMs, count),
    );
  }

  peek(subject: Subject): Promise<Quota> {
    return this.#call(async () => this.#objects.getByName(subject.name).peek(policyOf(subject)));
  }

  /** Every attempt takes a new stub, because one that has thrown may be broken for good. */
  async #call<T>(attempt: () => Promise<T>): Promise<T> {
    const calls = attempt().catch((error: unknown) => {
      if (!isRetryable(error)) throw error;
      // The first attempt is the one that has failed.
      return pRetry((number) => (number === 1 ? Promise.reject(error) : attempt()), {
        retries: 2,
        minTimeout: 50,
        randomize: true,
        shouldRetry: (context) => isRetryable(context.error),
      });
    });
    return withDeadline(calls, this.#timeoutMs);
  }
}

function policyOf({ limits, revision, resets, bans }: Subject): QuotaPolicy {
  return { limits, revision, resets, bans };
}

/** Cloudflare marks what may pass with another attempt; an overloaded object is only made worse by one. */
function isRetryable(error: unknown): boolean {
  const { retryable, overloaded }: { retryable?: unknown; overloaded?: unknown } = Object(error);
  return retryable === true && overloaded !== true;
}
