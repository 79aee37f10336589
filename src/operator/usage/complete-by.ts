import { REPORT_EVERY_MS } from "../../worker/usage/day-usage.ts";

/** When every key will have reported what it did until `now`. */
export function completeBy(now: Date): Date {
  return new Date(now.getTime() + REPORT_EVERY_MS);
}

/** Whether a key that reported nothing for a day (`2026-11-21`) has nothing to report for it. */
export function isComplete(day: string, now: Date): boolean {
  const dayEndMs = Date.parse(day) + 86_400_000;
  return now.getTime() >= dayEndMs + REPORT_EVERY_MS;
}
