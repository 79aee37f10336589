import type { ApiKey } from "../api-keys/api-key.ts";
import { dayOf, dayText } from "./day-usage.ts";
import type { ReportedDay } from "./usage-table.ts";

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
  readonly reportedAt: Date | null;
  /** The days on which something was counted, in their order. */
  readonly days: readonly ReportedDay[];
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

/** @param rows the reports of these days, in the order of the days; of other keys, they are passed over. */
export function reportOn(
  keys: readonly KeyIdentity[],
  days: readonly string[],
  rows: readonly ReportedDay[],
): UsageReport {
  const rowsOfKeys = Map.groupBy(rows, ({ keyId }) => keyId);
  const reports = keys.map((key) => reportOnKey(key, rowsOfKeys.get(key.id) ?? []));
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

function reportOnKey({ id, name, plan }: KeyIdentity, days: readonly ReportedDay[]): KeyReport {
  const peak = (shares: readonly number[]) => Math.min(1, Math.max(0, ...shares));
  return {
    id,
    name,
    plan,
    ...totalsOf(days),
    minutePeak: peak(days.map(({ peakMinute, perMinute }) => peakMinute / perMinute)),
    dayPeak: peak(days.map(({ peakDay, perDay }) => peakDay / perDay)),
    reportedAt: latest(days),
    days,
  };
}

function latest(reports: readonly { readonly reportedAt: Date | null }[]): Date | null {
  return reports.reduce<Date | null>(
    (last, { reportedAt }) => (reportedAt !== null && reportedAt > (last ?? 0) ? reportedAt : last),
    null,
  );
}
