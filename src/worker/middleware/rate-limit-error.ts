import type { ApiFailure } from "../errors.ts";
import type { Quota } from "../limit-rules/decision.ts";
import { retryAfterSeconds } from "../limit-rules/headers.ts";

/**
 * Returns the 429 error of a refused request (docs/api.md, Errors). The error is returned instead
 * of thrown, because capturing a stack trace would be most of the cost of a refusal.
 */
export function rateLimitError(quota: Quota, reason: string): ApiFailure {
  const seconds = retryAfterSeconds(quota);
  const wait = `Wait ${seconds} ${seconds === 1 ? "second" : "seconds"} before the next request.`;
  const code = quota.banned ? "api_key_banned" : "rate_limit_exceeded";
  return { code, message: `${reason} ${wait}`, headers: { "Retry-After": String(seconds) } };
}
