import * as z from "zod/mini";
import type { Decision } from "../limits/decision.ts";

/** The longest time from a request to the report that counts it, unless the database fails. */
export const REPORT_EVERY_MS = 3_600_000;

const DAY_MS = 86_400_000;

const count = z.int().check(z.nonnegative());

const dayUsageSchema = z.object({
  /** Days since 1970-01-01. */
  day: count,
  admitted: count,
  refused: count,
  strikes: count,
  bans: count,
  /** The largest count that a minute window and the day window have reached. */
  peakMinute: count,
  peakDay: count,
  /** The limits that were in force last. */
  limits: z.object({ perMinute: count, perDay: count }),
});

/** The usage of a key on one day in UTC, as its Durable Object stores it. */
export type DayUsage = Readonly<z.output<typeof dayUsageSchema>>;

/** The days of a key that are not yet both over and reported, each once. */
export type Usage = readonly DayUsage[];

// An earlier version stored no usage.
const usageSchema = z._default(z.array(dayUsageSchema), []);

/** Further effects of one request, beside the decision on it. */
export interface Consequences {
  /** The number of requests that isolates refused from memory since their last report. */
  readonly refusedElsewhere: number;
  readonly strikes: number;
  readonly bans: number;
}

/** Reads the usage that any version has stored. Returns `null` if it cannot be read. */
export function readUsage(stored: unknown): Usage | null {
  const parsed = usageSchema.safeParse(stored);
  return parsed.success ? parsed.data : null;
}

/** Counts one request and its consequences on the day of the decision. Pure. */
export function countUsage(usage: Usage, decision: Decision, consequences: Consequences): Usage {
  const { admitted, minute, day, nowMs } = decision;
  const { refusedElsewhere, strikes, bans } = consequences;
  const today = dayOf(nowMs);
  const before = usage.find((counted) => counted.day === today);
  const after: DayUsage = {
    day: today,
    admitted: (before?.admitted ?? 0) + Number(admitted),
    refused: (before?.refused ?? 0) + refusedElsewhere + Number(!admitted),
    strikes: (before?.strikes ?? 0) + strikes,
    bans: (before?.bans ?? 0) + bans,
    peakMinute: Math.max(before?.peakMinute ?? 0, minute.limit - minute.remaining),
    peakDay: Math.max(before?.peakDay ?? 0, day.limit - day.remaining),
    limits: { perMinute: minute.limit, perDay: day.limit },
  };
  if (before === undefined) return [...usage, after];
  return usage.map((counted) => (counted === before ? after : counted));
}

/** Drops the days that are over and have not changed since they were `reported`. */
export function usageToKeep(usage: Usage, reported: Usage, nowMs: number): Usage {
  const today = dayOf(nowMs);
  return usage.filter((counted) => counted.day >= today || !reported.includes(counted));
}

/** Returns the Unix time in milliseconds at which the last day is over; 0 if there are no days. */
export function usageEndMs(usage: Usage): number {
  return Math.max(0, ...usage.map(({ day }) => (day + 1) * DAY_MS));
}

/** Returns the day in UTC of a Unix time in milliseconds, in days since 1970-01-01. */
export function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS);
}

/** Writes a day as `2026-11-21`. */
export function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}
