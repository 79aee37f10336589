import { readWindows, type WindowQuota } from "../../client/rate-limit-headers.ts";

/** The rate-limit headers of an answer, for both windows. */
export type Quota = Readonly<Record<"minute" | "day", WindowQuota>>;

/** Reads both windows from the headers of an answer; returns `null` if they are missing. */
export function quotaIn(headers: Headers): Quota | null {
  const windows = readWindows(headers);
  const minute = windows.find(({ name }) => name === "minute");
  const day = windows.find(({ name }) => name === "day");
  return minute === undefined || day === undefined ? null : { minute, day };
}

/** Formats a time as `59 s`, `12 min` or `23 h 59 min`. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
