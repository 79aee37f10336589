import type { Quota, WindowQuota } from "./decision.ts";
import { WINDOW_NAMES, WINDOW_SECONDS, type WindowName } from "./windows.ts";

/** The rate-limit headers, as `Access-Control-Expose-Headers` and OpenAPI list them. */
export const QUOTA_HEADERS = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "RateLimit-Policy",
  "RateLimit",
  "Retry-After",
] as const;

/**
 * Returns the rate-limit headers of a response, without `Retry-After` (docs/limits.md, Headers).
 * `X-RateLimit-*` describe the window with the fewest requests left. `RateLimit-Policy` and
 * `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11) describe every window.
 */
export function quotaHeaders(quota: Quota): Record<string, string> {
  const described = describedWindow(quota);
  return {
    "X-RateLimit-Limit": String(described.limit),
    "X-RateLimit-Remaining": String(described.remaining),
    "X-RateLimit-Reset": String(Math.ceil(described.endsMs / 1_000)),
    "RateLimit-Policy": WINDOW_NAMES.map((name) => policyItem(name, quota)).join(", "),
    RateLimit: WINDOW_NAMES.map((name) => quotaItem(name, quota)).join(", "),
  };
}

/**
 * Returns the window that the `X-RateLimit-*` headers describe, and their values. This is the window
 * with the fewest requests left; on a tie, the window that ends later.
 */
export function describedWindow(quota: Quota): WindowQuota & { readonly name: WindowName } {
  const described = WINDOW_NAMES.reduce((decisive, name) => {
    const [one, other] = [quota[decisive], quota[name]];
    const isTie = one.remaining === other.remaining;
    const isOther = isTie ? other.endsMs >= one.endsMs : other.remaining < one.remaining;
    return isOther ? name : decisive;
  });
  return { name: described, ...announcedWindow(described, quota) };
}

/** Returns the value of `Retry-After`: whole seconds, at least 1 (RFC 9110, section 10.2.3). */
export function retryAfterSeconds(quota: Quota): number {
  return Math.max(1, secondsUntil(quota.retryAtMs ?? quota.nowMs, quota.nowMs));
}

function policyItem(name: WindowName, quota: Quota): string {
  return `"${name}";q=${quota[name].limit};w=${WINDOW_SECONDS[name]}`;
}

function quotaItem(name: WindowName, quota: Quota): string {
  const { remaining, endsMs } = announcedWindow(name, quota);
  return `"${name}";r=${remaining};t=${secondsUntil(endsMs, quota.nowMs)}`;
}

/** Returns the quota that the headers show: during a ban, nothing is left until `retryAtMs`. */
export function announcedWindow(name: WindowName, quota: Quota): WindowQuota {
  if (!quota.banned || quota.retryAtMs === null) return quota[name];
  return { limit: quota[name].limit, remaining: 0, endsMs: quota.retryAtMs };
}

function secondsUntil(endMs: number, nowMs: number): number {
  return Math.ceil((endMs - nowMs) / 1_000);
}
