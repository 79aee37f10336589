/** What an answer says of one window. */
export interface WindowQuota {
  readonly limit: number;
  readonly remaining: number;
  /** Until it ends, from the time of the answer. */
  readonly seconds: number;
}

export type Quota = Readonly<Record<"minute" | "day", WindowQuota>>;

/** Reads both windows from `RateLimit-Policy` and `RateLimit`; `null` where they are not there. */
export function quotaIn(headers: Headers): Quota | null {
  const minute = windowIn(headers, "minute");
  const day = windowIn(headers, "day");
  return minute === null || day === null ? null : { minute, day };
}

function windowIn(headers: Headers, name: string): WindowQuota | null {
  const policy = new RegExp(`"${name}";q=(\\d+)`).exec(headers.get("RateLimit-Policy") ?? "");
  const state = new RegExp(`"${name}";r=(\\d+);t=(\\d+)`).exec(headers.get("RateLimit") ?? "");
  if (policy === null || state === null) return null;
  return { limit: Number(policy[1]), remaining: Number(state[1]), seconds: Number(state[2]) };
}

/** Whole seconds in `Retry-After`, or `null`. */
export function retryAfterIn(headers: Headers): number | null {
  const value = headers.get("Retry-After") ?? "";
  return /^\d+$/.test(value) ? Number(value) : null;
}

/** A time in words: `59 s`, `12 min`, `23 h 59 min`. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
