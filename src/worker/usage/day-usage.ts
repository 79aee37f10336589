import type { Decision } from "../limits/decision.ts";
import type { Limits } from "../limits/plans.ts";

const DAY_MS = 86_400_000;

/** What a key did on one day in UTC. */
export interface DayUsage {
  /** Days since 1970-01-01. */
  readonly day: number;
  readonly admitted: number;
  readonly refused: number;
  readonly strikes: number;
  readonly bans: number;
  /** The most that a minute window and the day window have held. */
  readonly peakMinute: number;
  readonly peakDay: number;
  /** The limits that were in force last. */
  readonly limits: Limits;
}

/** The days of a key that are not both over and reported, none of them twice. */
export type Usage = readonly DayUsage[];

/** What a request has led to beside the decision on it. */
export interface Consequences {
  /** Requests refused elsewhere by what was decided here, not counted before. */
  readonly refusedElsewhere: number;
  readonly strikes: number;
  readonly bans: number;
}

/** Counts one request, and what others were refused meanwhile, on the day of the decision. Pure. */
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

/** What is to be kept once `reported` was reported: today, and what was counted since. */
export function usageToKeep(usage: Usage, reported: Usage, nowMs: number): Usage {
  const today = dayOf(nowMs);
  return usage.filter((counted) => counted.day >= today || !reported.includes(counted));
}

/** Unix time in milliseconds at which the last of the days is over; 0 where there is none. */
export function usageEndMs(usage: Usage): number {
  return Math.max(0, ...usage.map(({ day }) => (day + 1) * DAY_MS));
}

/** The day in UTC of a Unix time in milliseconds, in days since 1970-01-01. */
export function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS);
}

/** A day as `2026-11-21`. */
export function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}
