import type { Quota } from "./decision.ts";
import { announcedWindow, retryAfterSeconds } from "./headers.ts";
import { WINDOW_NAMES, type WindowName } from "./windows.ts";

/** What `GET /v1/quota` says about the limits of a key (docs/api.md, Quota). */
export interface QuotaReport {
  readonly windows: readonly {
    readonly name: WindowName;
    /** The number of requests that the window admits. */
    readonly limit: number;
    readonly remaining: number;
    /** The end of the window; `null` if no request has opened it. */
    readonly resetsAt: Date | null;
  }[];
  /** The ban that refuses requests; `null` if there is none. */
  readonly ban: { readonly endsAt: Date; readonly number: number } | null;
  /** `Retry-After` of a request that would be refused now; 0 if it would be admitted. */
  readonly retryAfterSeconds: number;
}

/** Describes a quota with the values that the rate-limit headers have. */
export function reportQuota(quota: Quota): QuotaReport {
  const { ban, retryAtMs } = quota;
  return {
    windows: WINDOW_NAMES.map((name) => {
      const { limit, remaining, endsMs } = announcedWindow(name, quota);
      return { name, limit, remaining, resetsAt: remaining < limit ? new Date(endsMs) : null };
    }),
    ban: ban ? { endsAt: new Date(ban.endsMs), number: ban.number } : null,
    retryAfterSeconds: retryAtMs === null ? 0 : retryAfterSeconds(quota),
  };
}
