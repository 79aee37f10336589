/** A window as the rate-limit headers of a response describe it. */
export interface AnnouncedWindow {
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until the window ends. */
  readonly seconds: number;
}

/** The values of the rate-limit headers of a response (docs/limits.md, Headers). */
export interface AnnouncedQuota {
  readonly limit: number;
  readonly remaining: number;
  /** Unix time in seconds. */
  readonly reset: number;
  readonly minute: AnnouncedWindow;
  readonly day: AnnouncedWindow;
}

/** The largest allowed difference between the clocks of this machine and the service. */
const CLOCK_TOLERANCE_SECONDS = 60;

/** Reads the rate-limit headers. Returns `null` if a header is missing or malformed. */
export function readQuota(headers: Headers): AnnouncedQuota | null {
  const policy = /^"minute";q=(\d+);w=60, "day";q=(\d+);w=86400$/.exec(
    headers.get("RateLimit-Policy") ?? "",
  );
  const left = /^"minute";r=(\d+);t=(\d+), "day";r=(\d+);t=(\d+)$/.exec(
    headers.get("RateLimit") ?? "",
  );
  const [limit, remaining, reset] = ["Limit", "Remaining", "Reset"].map((name) =>
    wholeNumber(headers.get(`X-RateLimit-${name}`) ?? ""),
  ) as [number, number, number];
  if (policy === null || left === null || Number.isNaN(limit + remaining + reset)) return null;
  const window = (limitAt: number, leftAt: number): AnnouncedWindow => ({
    limit: Number(policy[limitAt]),
    remaining: Number(left[leftAt]),
    seconds: Number(left[leftAt + 1]),
  });
  return { limit, remaining, reset, minute: window(1, 1), day: window(2, 3) };
}

/**
 * Compares `X-RateLimit-*` with `RateLimit`. `X-RateLimit-*` must describe the window with the
 * fewest requests left. If both windows have the same number left, `X-RateLimit-*` must describe
 * the window that ends later.
 *
 * @param nowMs this machine's Unix time in milliseconds.
 * @returns a description of the contradiction; `null` if there is none.
 */
export function contradictionIn(quota: AnnouncedQuota, nowMs: number): string | null {
  const { minute, day } = quota;
  const isMinute =
    minute.remaining === day.remaining
      ? minute.seconds > day.seconds
      : minute.remaining < day.remaining;
  const described = isMinute ? minute : day;
  if (quota.limit !== described.limit && minute.seconds !== day.seconds) {
    return `X-RateLimit-Limit is ${quota.limit}, but RateLimit describes ${described.limit}`;
  }
  if (quota.remaining !== described.remaining) {
    return `X-RateLimit-Remaining is ${quota.remaining}, but RateLimit describes ${described.remaining}`;
  }
  const skew = Math.abs(quota.reset - (nowMs / 1_000 + described.seconds));
  return skew <= CLOCK_TOLERANCE_SECONDS
    ? null
    : `X-RateLimit-Reset is ${quota.reset}, but RateLimit ends in ${described.seconds} s`;
}

function wholeNumber(text: string): number {
  return /^\d+$/.test(text) ? Number(text) : NaN;
}
