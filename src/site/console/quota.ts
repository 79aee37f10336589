import { readWindows, type WindowQuota } from "../../client/rate-limit-headers.ts";

/** The rate-limit headers of a response, for the minute window and the day window. */
export type Quota = Readonly<Record<"minute" | "day", WindowQuota>>;

/**
 * Reads the minute window and the day window from the headers of a response. Returns `null` if one
 * of these windows is missing.
 */
export function quotaIn(headers: Headers): Quota | null {
  const windows = readWindows(headers);
  const minute = windows.find(({ name }) => name === "minute");
  const day = windows.find(({ name }) => name === "day");
  return minute === undefined || day === undefined ? null : { minute, day };
}

/** Formats a duration such as `59 s`, `12 min` or `23 h 59 min`. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
