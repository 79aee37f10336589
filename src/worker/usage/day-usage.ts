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
  const one = {
    day: dayOf(nowMs),
    admitted: Number(admitted),
    ...further,
    refused: further.refused + Number(!admitted),
    peakMinute: minute.limit - minute.remaining,
    peakDay: day.limit - day.remaining,
    limits: { perMinute: minute.limit, perDay: day.limit },
  };
  return usageUntil([...usage, one], one.day);
}

/**
 * Adds the usage of a day and of later days up, so that `today` is the last day. Later days are days
 * that were counted while the clock was ahead. Returns the same usage if nothing changes. Pure.
 */
export function usageUntil(usage: Usage, today: number): Usage {
  const [first, ...others] = usage.filter(({ day }) => day >= today);
  if (first === undefined || (first.day === today && others.length === 0)) return usage;
  const added = others.reduce(addUsage, { ...first, day: today });
  return [...usage.filter(({ day }) => day < today), added];
}

/** Adds the later usage of a day to the earlier one. */
function addUsage(earlier: DayUsage, later: DayUsage): DayUsage {
  return {
    day: earlier.day,
    admitted: earlier.admitted + later.admitted,
    refused: earlier.refused + later.refused,
    strikes: earlier.strikes + later.strikes,
    bans: earlier.bans + later.bans,
    peakMinute: Math.max(earlier.peakMinute, later.peakMinute),
    peakDay: Math.max(earlier.peakDay, later.peakDay),
    limits: later.limits,
  };
}
