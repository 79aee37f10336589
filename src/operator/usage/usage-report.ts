import { type ApiKey, limitsOf } from "../../worker/api-keys/api-key.ts";
import type { Limits } from "../../worker/limit-rules/plans.ts";
import type { BanDay } from "../key-store/key-bans.ts";
import { dayOf, dayText, REPORT_EVERY_MS } from "../../worker/usage/day-usage.ts";
import type { keyUsage } from "../../schema/keys.ts";

/** The usage of a key on one day in UTC, as its limiter last reported it. */
export type ReportedDay = typeof keyUsage.$inferSelect;

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
  readonly minutePeak: number | null;
  /** The fullest day window, as a share of the limit on the day of the window, from 0 to 1. */
  readonly dayPeak: number | null;
  /** The time of the key's last report; `null` if it reported nothing. */
  readonly reportedAt: Date | null;
  /** The end of the ban that is in force; `null` if the key is not banned. */
  readonly bannedUntil: Date | null;
  /** The days for which the key's Durable Object has reported usage, in ascending order. */
  readonly days: readonly ReportedDay[];
  /** The number of bans for each day, including bans after the key's last report. */
  readonly bansByDay: ReadonlyMap<string, number>;
}

/** Counts of requests and bans. `null`: unknown, because no key has reported the count yet. */
export interface UsageTotals {
  readonly admitted: number | null;
  readonly refused: number | null;
  readonly strikes: number | null;
  readonly bans: number | null;
}

/** The usage of one key or of several keys on one day. */
export interface DayFigures extends UsageTotals {
  readonly day: string;
  /** True if every key has had time to report this day, so that the counts are final. */
  readonly isComplete: boolean;
  /** The admitted requests of the keys of each plan. */
  readonly byPlan: Readonly<Record<ApiKey["plan"], number | null>>;
  /** The report of the day, if only one key reported it. */
  readonly only: ReportedDay | undefined;
}

/** The share of a limit from which a key counts as near the limit. */
export const NEAR_LIMIT = 0.8;

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
function isComplete(day: string, now: Date): boolean {
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
      (one, other) =>
        (other.admitted ?? 0) - (one.admitted ?? 0) || (other.refused ?? 0) - (one.refused ?? 0),
    ),
  };
}

/** Adds up the known counts of several keys or days. A count that no key or day knows is `null`. */
export function totalsOf(counted: readonly UsageTotals[]): UsageTotals {
  const sum = (name: keyof UsageTotals) => {
    const known = counted.map((counts) => counts[name]).filter((count) => count !== null);
    return known.length === 0 ? null : known.reduce((total, count) => total + count, 0);
  };
  return {
    admitted: sum("admitted"),
    refused: sum("refused"),
    strikes: sum("strikes"),
    bans: sum("bans"),
  };
}

/**
 * Adds up the usage of keys on each day. If no key has reported a day, the counts are 0 from the
 * time by which a key would have reported, and unknown before.
 */
export function figuresByDay({ days, keys }: UsageReport, now: Date): DayFigures[] {
  const reported = Map.groupBy(
    keys.flatMap((key) => key.days.map((counted) => ({ ...counted, plan: key.plan }))),
    ({ day }) => day,
  );
  return days.map((day) => {
    const rows = reported.get(day) ?? [];
    const known = isComplete(day, now) || rows.length > 0 ? 0 : null;
    const admittedOf = (plan: ApiKey["plan"]) =>
      totalsOf(rows.filter((row) => row.plan === plan)).admitted ?? known;
    const { admitted, refused, strikes } = totalsOf(rows);
    const bans = keys.reduce((sum, { bansByDay }) => sum + (bansByDay.get(day) ?? 0), 0);
    return {
      day,
      isComplete: isComplete(day, now),
      admitted: admitted ?? known,
      refused: refused ?? known,
      strikes: strikes ?? known,
      bans: bans || known,
      byPlan: {
        free: admittedOf("free"),
        pro: admittedOf("pro"),
        business: admittedOf("business"),
        enterprise: admittedOf("enterprise"),
      },
      only: rows.length === 1 ? rows[0] : undefined,
    };
  });
}

/** Returns the larger share of a key's two limits that it has used. Unknown shares count as 0. */
export function fullestShare({ minutePeak, dayPeak }: KeyReport): number {
  return Math.max(minutePeak ?? 0, dayPeak ?? 0);
}

/** Returns the keys whose fullest window reached a share of its limit. The share is from 0 to 1. */
export function keysNear({ keys }: UsageReport, share: number): readonly KeyReport[] {
  return keys.filter((key) => fullestShare(key) >= share);
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
  const peak = (shares: readonly number[]) =>
    shares.length === 0 ? null : Math.min(1, Math.max(...shares));
  return {
    id,
    name,
    plan,
    limits: limitsOf(key),
    ...totalsOf(days),
    bans: days.length === 0 ? bans || null : bans,
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
