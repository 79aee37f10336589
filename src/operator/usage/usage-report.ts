import { type ApiKey, limitsOf } from "../../worker/api-keys/api-key.ts";
import type { Limits } from "../../worker/limit-rules/plans.ts";
import type { BanDay } from "../key-store/key-bans.ts";
import { dayOf, dayText, REPORT_EVERY_MS } from "../../worker/usage/day-usage.ts";
import type { ReportedDay } from "./read-usage.ts";

/**
 * The usage of keys over a range of days in UTC. Figures are up to an hour old, because limiters
 * report once an hour. Only bans are up to date.
 */
export interface UsageReport {
  /** All days of the range in ascending order, in the form `2026-11-21`. */
  readonly days: readonly string[];
  /** The time of the last report in the range; `null` if there is none. */
  readonly reportedAt: Date | null;
  /** The usage of each key, sorted by admitted requests, the largest number first. */
  readonly keys: readonly KeyReport[];
}

/** The fields of a stored key that a report shows. */
type ReportedKey = Pick<ApiKey, "id" | "name" | "plan" | "perMinute" | "perDay">;

/** The usage of one key, with its totals over all days of the report. */
export interface KeyReport extends Pick<ApiKey, "id" | "name" | "plan">, UsageTotals {
  /** The present limits of the key. */
  readonly limits: Limits;
  /** The fullest minute window, as a share of the limit on the day of the window, from 0 to 1. */
  readonly minutePeak: number;
  /** The fullest day window, as a share of the limit on the day of the window, from 0 to 1. */
  readonly dayPeak: number;
  /**
   * The time of the key's last report; `null` if it reported nothing, so its figures are unknown.
   */
  readonly reportedAt: Date | null;
  /** The end of the ban that is in force; `null` if the key is not banned. */
  readonly bannedUntil: Date | null;
  /** The days for which the key's Durable Object has reported usage, in ascending order. */
  readonly days: readonly ReportedDay[];
  /** The number of bans for each day, including bans after the key's last report. */
  readonly bansByDay: ReadonlyMap<string, number>;
}

export interface UsageTotals {
  readonly admitted: number;
  readonly refused: number;
  readonly strikes: number;
  readonly bans: number;
}

/** Returns the fields of a key's report that its JSON and the page of all keys have in common. */
export function summarize(report: KeyReport) {
  const { id, name, plan, admitted, refused, strikes, bans, minutePeak, dayPeak } = report;
  return { id, name, plan, admitted, refused, strikes, bans, minutePeak, dayPeak };
}

/** Returns the time at which all keys will have reported their usage up to `now`. */
export function completeBy(now: Date): Date {
  return new Date(now.getTime() + REPORT_EVERY_MS);
}

/**
 * Returns whether every key has had time to report a day. If so, a key without a report for the day
 * was not used on it.
 */
export function isComplete(day: string, now: Date): boolean {
  const dayEndMs = Date.parse(day) + 86_400_000;
  return now.getTime() >= dayEndMs + REPORT_EVERY_MS;
}

/** Returns the last `count` days in UTC in ascending order, including today. */
export function lastDays(count: number, now: Date): string[] {
  const today = dayOf(now.getTime());
  return Array.from({ length: count }, (_, index) => dayText(today - count + 1 + index));
}

/** The rows of the database from which a report is made. */
interface Recorded {
  /** The reported usage, in the order of the days. */
  readonly rows: readonly ReportedDay[];
  /** The bans that began on the days of the report, and earlier bans that are in force. */
  readonly banDays: readonly BanDay[];
  readonly now: Date;
}

/** Creates a report of these keys on these days. */
export function reportOn(
  keys: readonly ReportedKey[],
  days: readonly string[],
  { rows, banDays, now }: Recorded,
): UsageReport {
  const rowsOfKeys = Map.groupBy(rows, ({ keyId }) => keyId);
  const bansOfKeys = Map.groupBy(banDays, ({ keyId }) => keyId);
  const reports = keys.map((key) => {
    const bans = bansOfKeys.get(key.id) ?? [];
    return {
      ...reportOnKey(key, days, rowsOfKeys.get(key.id) ?? [], bans),
      bannedUntil: banEnd(bans, now),
    };
  });
  return {
    days,
    reportedAt: latest(reports),
    keys: reports.toSorted(
      (one, other) => other.admitted - one.admitted || other.refused - one.refused,
    ),
  };
}

/** Adds up the counts of several keys or days. */
export function totalsOf(counted: readonly UsageTotals[]): UsageTotals {
  const sum = { admitted: 0, refused: 0, strikes: 0, bans: 0 };
  for (const { admitted, refused, strikes, bans } of counted) {
    sum.admitted += admitted;
    sum.refused += refused;
    sum.strikes += strikes;
    sum.bans += bans;
  }
  return sum;
}

/** Returns the keys whose fullest window reached a share of its limit. The share is from 0 to 1. */
export function keysNear({ keys }: UsageReport, share: number): readonly KeyReport[] {
  return keys.filter(({ minutePeak, dayPeak }) => Math.max(minutePeak, dayPeak) >= share);
}

function reportOnKey(
  key: ReportedKey,
  range: readonly string[],
  days: readonly ReportedDay[],
  banDays: readonly BanDay[],
): Omit<KeyReport, "bannedUntil"> {
  const { id, name, plan } = key;
  const bansByDay = countBans(range, days, banDays);
  const bans = [...bansByDay.values()].reduce((sum, count) => sum + count, 0);
  const peak = (shares: readonly number[]) => Math.min(1, Math.max(0, ...shares));
  return {
    id,
    name,
    plan,
    limits: limitsOf(key),
    ...totalsOf(days),
    bans,
    minutePeak: peak(days.map(({ peakMinute, perMinute }) => peakMinute / perMinute)),
    dayPeak: peak(days.map(({ peakDay, perDay }) => peakDay / perDay)),
    reportedAt: latest(days),
    days,
    bansByDay,
  };
}

/**
 * Returns the number of bans for each day. Takes the larger number of two sources, because each can
 * lag behind: the usage reports, which come once an hour, and the table of bans, which a limiter
 * writes when a ban begins.
 */
function countBans(
  range: readonly string[],
  reported: readonly ReportedDay[],
  recorded: readonly BanDay[],
): ReadonlyMap<string, number> {
  const ofDay = (
    counted: readonly { readonly day: string; readonly bans: number }[],
    day: string,
  ) => counted.find((other) => other.day === day)?.bans ?? 0;
  return new Map(
    range.map((day) => [day, Math.max(ofDay(reported, day), ofDay(recorded, day))] as const),
  );
}

function banEnd(banDays: readonly BanDay[], now: Date): Date | null {
  const untilMs = Math.max(0, ...banDays.map(({ untilMs: endMs }) => endMs ?? 0));
  return untilMs > now.getTime() ? new Date(untilMs) : null;
}

function latest(reports: readonly { readonly reportedAt: Date | null }[]): Date | null {
  return reports.reduce<Date | null>(
    (last, { reportedAt }) => (reportedAt !== null && reportedAt > (last ?? 0) ? reportedAt : last),
    null,
  );
}
