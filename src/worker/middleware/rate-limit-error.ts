import type { ApiFailure } from "../errors.ts";
import type { Quota } from "../limits/decision.ts";
import { retryAfterSeconds } from "../limits/headers.ts";

/**
 * The 429 of a refused request, with `Retry-After` (contract, sections 1 and 4). Not thrown: a stack
 * would be most of its cost, and refusals are meant to be cheap.
 */
export function rateLimitError(quota: Quota, reason: string): ApiFailure {
  const seconds = retryAfterSeconds(quota);
  const wait = `Wait ${seconds} ${seconds === 1 ? "second" : "seconds"} before the next request.`;
  const code = quota.banned ? "api_key_banned" : "rate_limit_exceeded";
  return { code, message: `${reason} ${wait}`, headers: { "Retry-After": String(seconds) } };
}
