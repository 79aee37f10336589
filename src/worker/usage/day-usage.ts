import * as z from "zod/mini";
import { dayOf } from "../../rules/days.ts";
import type { Decision } from "../../rules/limits/decision.ts";

/** The first admission of a day is reported to the database within this time. */
export const FIRST_REPORT_MS = 60_000;

/** Every admission is reported within this time. A refusal alone causes no report. */
export const REPORT_EVERY_MS = 3_600_000;

const count = z.int().check(z.nonnegative());

const dayUsageSchema = z.object({
  /** The day in UTC, as the number of days since 1970-01-01. */
  day: count,
  admitted: count,
  refused: count,
  strikes: count,
  bans: count,
  /** The requests in the fullest minute window and in the fullest day window on this day. */
  peakMinute: count,
  peakDay: count,
  /** The limits that applied to the last request of the day. */
  limits: z.object({ perMinute: count, perDay: count }),
});

/** The usage of a key on one day, as its Durable Object stores it. */
type DayUsage = Readonly<z.output<typeof dayUsageSchema>>;

/** The usage of a key on each day that is not yet over or not yet reported. */
export type Usage = readonly DayUsage[];

export const usageSchema = z.array(dayUsageSchema);

/** Counts besides the request itself: earlier refusals by isolates, new strikes and new bans. */
export type FurtherCounts = Pick<DayUsage, "refused" | "strikes" | "bans">;

/** Adds one request and further counts to the usage on the day of the decision. Pure. */
export function countUsage(usage: Usage, decision: Decision, further: FurtherCounts): Usage {
  const { admitted, minute, day, nowMs } = decision;
  const { refused, strikes, bans } = further;
  const today = dayOf(nowMs);
  const before = usage.find((counted) => counted.day === today);
  const after: DayUsage = {
    day: today,
    admitted: (before?.admitted ?? 0) + Number(admitted),
    refused: (before?.refused ?? 0) + refused + Number(!admitted),
    strikes: (before?.strikes ?? 0) + strikes,
    bans: (before?.bans ?? 0) + bans,
    peakMinute: Math.max(before?.peakMinute ?? 0, minute.limit - minute.remaining),
    peakDay: Math.max(before?.peakDay ?? 0, day.limit - day.remaining),
    limits: { perMinute: minute.limit, perDay: day.limit },
  };
  if (before === undefined) return [...usage, after];
  return usage.map((counted) => (counted === before ? after : counted));
}
