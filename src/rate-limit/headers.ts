import { decisiveWindow, type Quota } from "./decision.ts";
import { WINDOW_SECONDS, type WindowName } from "./windows.ts";

const WINDOW_NAMES = ["minute", "day"] as const satisfies readonly WindowName[];

/** Every header that this module writes, for `Access-Control-Expose-Headers`. */
export const QUOTA_HEADERS = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "RateLimit-Policy",
  "RateLimit",
  "Retry-After",
] as const;

/**
 * The rate-limit headers of an answer (contract, sections 4 and 5): `X-RateLimit-*` for the window
 * that matters most, `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11)
 * for both. Under a ban nothing is left of either until it ends.
 */
export function quotaHeaders(quota: Quota): Record<string, string> {
  const described = quota[decisiveWindow(quota)];
  const banEndMs = quota.banned ? quota.retryAtMs : null;
  return {
    "X-RateLimit-Limit": String(described.limit),
    "X-RateLimit-Remaining": String(banEndMs === null ? described.remaining : 0),
    "X-RateLimit-Reset": String(Math.ceil((banEndMs ?? described.endsMs) / 1_000)),
    "RateLimit-Policy": WINDOW_NAMES.map(
      (name) => `"${name}";q=${quota[name].limit};w=${WINDOW_SECONDS[name]}`,
    ).join(", "),
    RateLimit: WINDOW_NAMES.map((name) => {
      const remaining = banEndMs === null ? quota[name].remaining : 0;
      return `"${name}";r=${remaining};t=${secondsUntil(banEndMs ?? quota[name].endsMs, quota.nowMs)}`;
    }).join(", "),
  };
}

/** Whole seconds to wait before the next request, at least 1 (RFC 9110, section 10.2.3). */
export function retryAfterSeconds(quota: Quota): number {
  return Math.max(1, secondsUntil(quota.retryAtMs ?? quota.nowMs, quota.nowMs));
}

function secondsUntil(endMs: number, nowMs: number): number {
  return Math.ceil((endMs - nowMs) / 1_000);
}
