export const DAY_SECONDS = 86_400;
export const DAY_MS = 1_000 * DAY_SECONDS;

/** Converts a Unix time in milliseconds to the number of days since 1970-01-01, in UTC. */
export function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS);
}

/** Formats the number of a day as an ISO date such as `2026-11-21`. */
export function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

/** Returns the last `count` days up to a Unix time in milliseconds, in UTC, as ISO dates. */
export function lastDays(nowMs: number, count: number): string[] {
  const first = dayOf(nowMs) - count + 1;
  return Array.from({ length: count }, (_, index) => dayText(first + index));
}
