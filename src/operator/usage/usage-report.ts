import { and, count as countRows, eq, gte, inArray, sql } from "drizzle-orm";
import { keyBans, keyUsage } from "../../schema/keys.ts";
import { limitsOf } from "../../rules/keys/api-key.ts";
import type { Limits } from "../../rules/limits/plans.ts";
import { dayOf, dayText } from "../../rules/days.ts";
import { REPORT_EVERY_MS } from "../../worker/usage/day-usage.ts";
import { requireApiKey } from "../key-store/change-key.ts";
import type { Orm } from "../database/database.ts";
import { banEnd, type KeyDetails, listApiKeys } from "../key-store/key-details.ts";

/** The share of a limit from which a key counts as near the limit. */
export const NEAR_LIMIT = 0.8;
/** The number of rows that one query reads: about 1.5 MB from a remote database. */
const PAGE_ROWS = 10_000;
export const COUNTS = ["admitted", "refused", "strikes", "bans"] as const;

/** The usage of a key on one day in UTC, as its limiter last reported it. */
export type ReportedDay = Readonly<typeof keyUsage.$inferSelect>;

/** Counts of requests and bans. `null`: unknown, because no key has reported the count yet. */
export type UsageTotals = Readonly<Record<(typeof COUNTS)[number], number | null>>;

/** The usage of one key, with its totals over all days of the report. */
export interface KeyReport extends Pick<KeyDetails, "id" | "name" | "plan">, UsageTotals {
  readonly limits: Limits;
  /** The largest share of the minute limit that a window used, from 0 to 1; `null`: no report. */
  readonly minutePeak: number | null;
  /** The largest share of the day limit that a window used, from 0 to 1; `null`: no report. */
  readonly dayPeak: number | null;
  /** The time of the last report; `null` if the key reported nothing. */
  readonly reportedAt: Date | null;
  readonly bannedUntil: Date | null;
  /** The reported days, in ascending order. */
  readonly days: readonly ReportedDay[];
  /** The number of bans on each day, including bans after the key's last report. */
  readonly bansByDay: ReadonlyMap<string, number>;
}

/** The usage of keys over a range of days in UTC, up to an hour old. Bans are reported at once. */
export interface UsageReport {
  /** All days of the range in ascending order, in the form `2026-11-21`. */
  readonly days: readonly string[];
  /** The time of the last report in the range; `null` if there is none. */
  readonly reportedAt: Date | null;
  /** Sorted by admitted, then by refused requests, the largest numbers first. */
  readonly keys: readonly KeyReport[];
}

/** The usage of one key or of several keys on one day. Counts that nobody reported are `null`. */
export interface DayFigures extends UsageTotals {
  readonly day: string;
  readonly reports: readonly ReportedDay[];
}

/** Returns the last `count` days in UTC, in ascending order, today included. */
export function lastDays(count: number, now: Date): string[] {
  const today = dayOf(now.getTime());
  return Array.from({ length: count }, (_, index) => dayText(today - count + 1 + index));
}

/** Returns the time at which all keys will have reported their usage up to `now`. */
export function completeBy(now: Date): Date {
  return new Date(now.getTime() + REPORT_EVERY_MS);
}

/** Reads the usage of all keys, or of one, on the last `count` days. @throws if `id` is unknown. */
export async function readReport(
  database: Orm,
  id: string | undefined,
  count: number,
  now: Date,
): Promise<UsageReport> {
  const days = lastDays(count, now);
  const [firstDay = ""] = days;
  const keys =
    id === undefined ? await listApiKeys(database, {}, now) : [await requireApiKey(database, id)];
  const rowsByKey = Map.groupBy(await readUsage(database, id, days), ({ keyId }) => keyId);
  const banDaysByKey = Map.groupBy(await readBanDays(database, id, firstDay), ({ keyId }) => keyId);
  const reports = keys.map((key) =>
    reportOn(key, rowsByKey.get(key.id) ?? [], banDaysByKey.get(key.id) ?? [], now),
  );
  return {
    days,
    reportedAt: latest(reports),
    keys: reports.toSorted(
      (one, other) =>
        (other.admitted ?? 0) - (one.admitted ?? 0) || (other.refused ?? 0) - (one.refused ?? 0),
    ),
  };
}

/** Reads the usage of all keys, or of the key with this id, on these days, ordered by day. */
export async function readUsage(
  database: Orm,
  id: string | undefined,
  days: readonly string[],
): Promise<ReportedDay[]> {
  const { day, keyId } = keyUsage;
  // For one key, names each day, so that D1 finds the key's rows by their primary keys.
  // The days are one parameter, because D1 allows at most 100 parameters.
  const range = sql`(SELECT value FROM json_each(${JSON.stringify(days)}))`;
  const ofKey = id === undefined ? undefined : and(inArray(day, range), eq(keyId, id));
  const rows: ReportedDay[] = [];
  for (let after = { day: days[0] ?? "", keyId: "" }; ;) {
    const isLater = sql`(${day}, ${keyId}) > (${after.day}, ${after.keyId})`;
    const page = await database
      .select()
      .from(keyUsage)
      .where(and(gte(day, after.day), isLater, ofKey))
      .orderBy(day, keyId)
      .limit(PAGE_ROWS);
    rows.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return rows;
    after = last;
  }
}

function readBanDays(database: Orm, id: string | undefined, firstDay: string) {
  const { keyId, beganAt } = keyBans;
  const day = sql<string>`date(${beganAt} / 1000, 'unixepoch')`.as("day");
  return database
    .select({ keyId, day, bans: countRows() })
    .from(keyBans)
    .where(and(gte(beganAt, new Date(firstDay)), id === undefined ? undefined : eq(keyId, id)))
    .groupBy(keyId, sql`day`);
}

function reportOn(
  key: KeyDetails,
  days: readonly ReportedDay[],
  banDays: Awaited<ReturnType<typeof readBanDays>>,
  now: Date,
): KeyReport {
  const { id, name, plan } = key;
  // Takes the larger count. `key_bans` is newer than reports, but a restoration may remove bans.
  const bansByDay = new Map(banDays.map(({ day, bans }) => [day, bans]));
  for (const { day, bans } of days) bansByDay.set(day, Math.max(bans, bansByDay.get(day) ?? 0));
  const bans = [...bansByDay.values()].reduce((sum, ofDay) => sum + ofDay, 0);
  const peak = (shares: readonly number[]) =>
    shares.length === 0 ? null : Math.min(1, Math.max(...shares));
  return {
    id,
    name,
    plan,
    limits: limitsOf(key),
    ...totalsOf(days),
    bans: knownBans(bans, days),
    minutePeak: peak(days.map(({ peakMinute, perMinute }) => peakMinute / perMinute)),
    dayPeak: peak(days.map(({ peakDay, perDay }) => peakDay / perDay)),
    reportedAt: latest(days),
    bannedUntil: banEnd(key, now),
    days,
    bansByDay,
  };
}

/** Adds up the known counts of several keys or days. A sum is `null` if all counts are `null`. */
export function totalsOf(counted: readonly UsageTotals[]): UsageTotals {
  const sum = (name: keyof UsageTotals) => {
    const known = counted.map((counts) => counts[name]).filter((one) => one !== null);
    return known.length === 0 ? null : known.reduce((total, one) => total + one, 0);
  };
  return Object.fromEntries(COUNTS.map((name) => [name, sum(name)])) as UsageTotals;
}

/** Adds up the usage of keys on each day. */
export function figuresByDay({ days, keys }: UsageReport): DayFigures[] {
  const reported = Map.groupBy(
    keys.flatMap((key) => key.days),
    ({ day }) => day,
  );
  return days.map((day) => {
    const reports = reported.get(day) ?? [];
    const bans = keys.reduce((sum, { bansByDay }) => sum + (bansByDay.get(day) ?? 0), 0);
    return { day, ...totalsOf(reports), bans: knownBans(bans, reports), reports };
  });
}

// A ban is known at once, but that there was none only from a report.
function knownBans(bans: number, reports: readonly ReportedDay[]): number | null {
  return reports.length === 0 ? bans || null : bans;
}

/** Returns the larger peak of a key's two windows. An unknown peak counts as 0. */
export function fullestShare({ minutePeak, dayPeak }: KeyReport): number {
  return Math.max(minutePeak ?? 0, dayPeak ?? 0);
}

/** Returns the keys whose fullest window reached this share of its limit, from 0 to 1. */
export function keysNear({ keys }: UsageReport, share: number): readonly KeyReport[] {
  return keys.filter((key) => fullestShare(key) >= share);
}

function latest(reports: readonly { readonly reportedAt: Date | null }[]): Date | null {
  const times = reports.map(({ reportedAt }) => reportedAt);
  return times.reduce((last, time) => ((time ?? 0) > (last ?? 0) ? time : last), null);
}
