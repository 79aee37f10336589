import type { ApiFailure } from "../errors.ts";
import type { Quota } from "../limits/decision.ts";
import { retryAfterSeconds } from "../limits/headers.ts";

/**
 * Makes the 429 of a refused request (docs/api.md, Errors). The failure is returned, not thrown:
 * refusals must be cheap, and a stack trace would be most of their cost.
 */
export function rateLimitError(quota: Quota, reason: string): ApiFailure {
  const seconds = retryAfterSeconds(quota);
  const wait = `Wait ${seconds} ${seconds === 1 ? "second" : "seconds"} before the next request.`;
  const code = quota.banned ? "api_key_banned" : "rate_limit_exceeded";
  return { code, message: `${reason} ${wait}`, headers: { "Retry-After": String(seconds) } };
}
