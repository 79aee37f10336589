import type { ApiKey } from "../../worker/api-keys/api-key.ts";
import type { BanDay } from "../key-store/key-bans.ts";
import { dayOf, dayText } from "../../worker/usage/day-usage.ts";
import type { ReportedDay } from "./read-usage.ts";

/** What keys did in a range of days in UTC, as far as their limiters have reported it. */
export interface UsageReport {
  /** All days of the range, as `2026-11-21`, in their order. */
  readonly days: readonly string[];
  /** When the last of the reports in it was made; `null` where there is none. */
  readonly reportedAt: Date | null;
  /** The busiest first. */
  readonly keys: readonly KeyReport[];
}

/** What a report says of a key beside its figures. */
export type KeyIdentity = Pick<ApiKey, "id" | "name" | "plan">;

/** What one key did: its totals over the range. */
export interface KeyReport extends KeyIdentity, UsageTotals {
  /** How full the windows were at most, from 0 to 1: of the limits that were in force that day. */
  readonly minutePeak: number;
  readonly dayPeak: number;
  /** `null`: the key reported nothing in the range, so its figures are not known yet or there are none. */
  readonly reportedAt: Date | null;
  /** The end of the ban that is in force; `null`: not banned. */
  readonly bannedUntil: Date | null;
  /** The days on which something was counted, in their order. */
  readonly days: readonly ReportedDay[];
  /** The bans of each day, the bans that no report counts yet included. */
  readonly bansByDay: ReadonlyMap<string, number>;
}

export interface UsageTotals {
  readonly admitted: number;
  readonly refused: number;
  readonly strikes: number;
  readonly bans: number;
}

/** Today and the days before it, in UTC: `count` of them, in their order. */
export function lastDays(count: number, now: Date): string[] {
  const today = dayOf(now.getTime());
  return Array.from({ length: count }, (_, index) => dayText(today - count + 1 + index));
}

/** What the database knows of a range of days. What it knows of other keys and days is ignored. */
export interface Recorded {
  /** The reports of these days, in the order of the days. */
  readonly rows: readonly ReportedDay[];
  /** The bans of these days, and earlier ones that are in force. */
  readonly banDays: readonly BanDay[];
  readonly now: Date;
}

/** Adds up what is recorded of these keys on these days. */
export function reportOn(
  keys: readonly KeyIdentity[],
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

/** Adds up what keys or days have counted. */
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

/** The keys that came to this share of a limit, from 0 to 1, in a minute or day window. */
export function keysNear({ keys }: UsageReport, share: number): readonly KeyReport[] {
  return keys.filter(({ minutePeak, dayPeak }) => Math.max(minutePeak, dayPeak) >= share);
}

function reportOnKey(
  { id, name, plan }: KeyIdentity,
  range: readonly string[],
  days: readonly ReportedDay[],
  banDays: readonly BanDay[],
): Omit<KeyReport, "bannedUntil"> {
  const bansByDay = countBans(range, days, banDays);
  const bans = [...bansByDay.values()].reduce((sum, count) => sum + count, 0);
  const peak = (shares: readonly number[]) => Math.min(1, Math.max(0, ...shares));
  return {
    id,
    name,
    plan,
    ...totalsOf(days),
    bans,
    minutePeak: peak(days.map(({ peakMinute, perMinute }) => peakMinute / perMinute)),
    dayPeak: peak(days.map(({ peakDay, perDay }) => peakDay / perDay)),
    reportedAt: latest(days),
    days,
    bansByDay,
  };
}

/** A ban is recorded when it happens, and its key's limiter counts it in a later report. */
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
