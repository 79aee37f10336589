import { and, count as countRows, eq, getTableColumns, gte, inArray, sql } from "drizzle-orm";
import { dayOf, dayText } from "../../rules/days.ts";
import { keyBans, keyUsage } from "../../schema/keys.ts";
import { REPORT_EVERY_MS } from "../../worker/usage/day-usage.ts";
import type { Orm } from "../database/database.ts";
import { formatTime, MISSING } from "../terminal-text.ts";
import { requireApiKey } from "./change-key.ts";
import { banEnd, type KeyDetails, knownLimitsOf, listApiKeys } from "./stored-keys.ts";

/** The share of a limit from which a key counts as near the limit. */
export const NEAR_LIMIT = 0.8;
/** The number of rows that one query reads: about 1.5 MB from a remote database. */
const PAGE_ROWS = 10_000;

type Reported = Readonly<typeof keyUsage.$inferSelect>;
/** A key's usage on one day in UTC, as its limiter last reported it; `null`: not reported yet. */
export type UsageDay = Readonly<
  Pick<Reported, "day"> & {
    [Name in Exclude<keyof Reported, "keyId" | "day">]: Reported[Name] | null;
  }
>;

const { keyId: _keyId, ...columns } = getTableColumns(keyUsage);
const UNREPORTED = Object.fromEntries(Object.keys(columns).map((name) => [name, null]));

/** Usage added up over days of one or more keys. `null`: nothing was reported yet. */
export type Figures = Readonly<ReturnType<typeof sumUp>>;

export interface KeyReport extends Pick<KeyDetails, "id" | "name" | "plan">, Figures {
  readonly limits: ReturnType<typeof knownLimitsOf>;
  readonly bannedUntil: Date | null;
  /** The days with a report or a ban, in ascending order. */
  readonly days: readonly UsageDay[];
}

/** The usage of keys over a range of days in UTC, up to an hour old. Bans are recorded at once. */
export interface UsageReport {
  /** All days of the range in ascending order, in the form `2026-11-21`. */
  readonly days: readonly string[];
  /** Sorted by admitted, then by refused requests, the largest numbers first. */
  readonly keys: readonly KeyReport[];
  readonly madeAt: Date;
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
  const keys =
    id === undefined ? await listApiKeys(database, {}, now) : [await requireApiKey(database, id)];
  const usage = Map.groupBy(await readUsage(database, id, days), ({ keyId }) => keyId);
  const bans = Map.groupBy(await readBans(database, id, days), ({ keyId }) => keyId);
  const reports = keys.map((key) => {
    const { id: keyId, name, plan } = key;
    const ofKey = withBans(usage.get(keyId) ?? [], bans.get(keyId) ?? []);
    const limits = knownLimitsOf(key);
    const common = { id: keyId, name, plan, limits, bannedUntil: banEnd(key, now) };
    return { ...common, ...sumUp(ofKey), days: ofKey };
  });
  const busiestFirst = (one: Figures, other: Figures) =>
    (other.admitted ?? 0) - (one.admitted ?? 0) || (other.refused ?? 0) - (one.refused ?? 0);
  return { days, keys: reports.toSorted(busiestFirst), madeAt: now };
}

/** Reads the usage of all keys, or of the key with this id, on these days, ordered by day. */
export async function readUsage(
  database: Orm,
  id: string | undefined,
  days: readonly string[],
): Promise<Reported[]> {
  const { day, keyId } = keyUsage;
  // For one key, names each day, so that D1 finds the key's rows by their primary keys.
  // The days are one parameter, because D1 allows at most 100 parameters.
  const range = sql`(SELECT value FROM json_each(${JSON.stringify(days)}))`;
  const ofKey = id === undefined ? undefined : and(inArray(day, range), eq(keyId, id));
  const rows: Reported[] = [];
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

function readBans(database: Orm, id: string | undefined, [firstDay = ""]: readonly string[]) {
  const { keyId, beganAt } = keyBans;
  const day = sql<string>`date(${beganAt} / 1000, 'unixepoch')`.as("day");
  return database
    .select({ keyId, day, bans: countRows() })
    .from(keyBans)
    .where(and(gte(beganAt, new Date(firstDay)), id === undefined ? undefined : eq(keyId, id)))
    .groupBy(keyId, sql`day`);
}

// Takes the larger count. `key_bans` is newer than reports, but a restoration may remove bans.
function withBans(
  reported: readonly Reported[],
  counted: Awaited<ReturnType<typeof readBans>>,
): UsageDay[] {
  const days = new Map<string, UsageDay>();
  for (const { keyId: _, ...usage } of reported) days.set(usage.day, usage);
  for (const { day, bans } of counted) {
    const known = days.get(day) ?? ({ ...UNREPORTED, day } as UsageDay);
    days.set(day, { ...known, bans: Math.max(bans, known.bans ?? 0) });
  }
  return [...days.values()].toSorted((one, other) => (one.day < other.day ? -1 : 1));
}

/** Adds up the usage of days, and takes the largest share of a limit, from 0 to 1. */
export function sumUp(days: readonly UsageDay[]) {
  const known = (values: readonly (number | null)[]) => values.filter((value) => value !== null);
  const sum = (name: "admitted" | "refused" | "strikes" | "bans") => {
    const counts = known(days.map((day) => day[name]));
    return counts.length === 0 ? null : counts.reduce((total, count) => total + count);
  };
  const largest = (values: readonly (number | null)[]) =>
    known(values).reduce<number | null>((most, value) => Math.max(most ?? 0, value), null);
  const share = (peak: number | null, limit: number | null) =>
    peak === null || limit === null ? null : Math.min(1, peak / limit);
  const last = largest(days.map(({ reportedAt }) => reportedAt?.getTime() ?? null));
  return {
    admitted: sum("admitted"),
    refused: sum("refused"),
    strikes: sum("strikes"),
    bans: sum("bans"),
    minutePeak: largest(days.map(({ peakMinute, perMinute }) => share(peakMinute, perMinute))),
    dayPeak: largest(days.map(({ peakDay, perDay }) => share(peakDay, perDay))),
    reportedAt: last === null ? null : new Date(last),
  };
}

/** Adds up the usage of keys on each day, the newest day first. */
export function figuresByDay({ days, keys }: UsageReport): (Figures & { readonly day: string })[] {
  const used = Map.groupBy(
    keys.flatMap((key) => key.days),
    ({ day }) => day,
  );
  return days.map((day) => ({ day, ...sumUp(used.get(day) ?? []) })).toReversed();
}

/** Returns whether the fuller of a key's two windows is known to have come near its limit. */
export function isNear({ minutePeak, dayPeak }: Figures): boolean {
  return Math.max(minutePeak ?? 0, dayPeak ?? 0) >= NEAR_LIMIT;
}

/** Says how recent and how exact the figures of a report are. */
export function describeReport({ keys, madeAt }: UsageReport): string {
  const { reportedAt } = sumUp(keys.flatMap(({ days }) => days));
  const asOf =
    reportedAt === null
      ? "Nothing was reported."
      : `As reported until ${formatTime(reportedAt)}; refused requests are a lower bound.`;
  return `${asOf} ${MISSING} means not reported yet: a key in use reports by ${formatTime(completeBy(madeAt))}.`;
}
