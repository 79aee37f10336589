import { decisiveWindow, type Quota, type WindowQuota } from "./decision.ts";
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
  const described = describedWindow(quota);
  const banEndMs = quota.banned ? quota.retryAtMs : null;
  return {
    "X-RateLimit-Limit": String(described.limit),
    "X-RateLimit-Remaining": String(described.remaining),
    "X-RateLimit-Reset": String(Math.ceil(described.endsMs / 1_000)),
    "RateLimit-Policy": WINDOW_NAMES.map(
      (name) => `"${name}";q=${quota[name].limit};w=${WINDOW_SECONDS[name]}`,
    ).join(", "),
    RateLimit: WINDOW_NAMES.map((name) => {
      const remaining = banEndMs === null ? quota[name].remaining : 0;
      return `"${name}";r=${remaining};t=${secondsUntil(banEndMs ?? quota[name].endsMs, quota.nowMs)}`;
    }).join(", "),
  };
}

/** The window that `X-RateLimit-*` describe, as they do: under a ban nothing is left until its end. */
export function describedWindow(quota: Quota): WindowQuota & { readonly name: WindowName } {
  const name = decisiveWindow(quota);
  const { limit, remaining, endsMs } = quota[name];
  const banEndMs = quota.banned ? quota.retryAtMs : null;
  return { name, limit, remaining: banEndMs === null ? remaining : 0, endsMs: banEndMs ?? endsMs };
}

/** Whole seconds to wait before the next request, at least 1 (RFC 9110, section 10.2.3). */
export function retryAfterSeconds(quota: Quota): number {
  return Math.max(1, secondsUntil(quota.retryAtMs ?? quota.nowMs, quota.nowMs));
}

function secondsUntil(endMs: number, nowMs: number): number {
  return Math.ceil((endMs - nowMs) / 1_000);
}
