import { and, eq, gt, gte, inArray, ne, type SQL, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { keyUsage } from "../db/keys-schema.ts";
import { dayText, type Usage } from "./day-usage.ts";

type Database = BaseSQLiteDatabase<"async", unknown>;

/** What a key did on one day in UTC, as its limiter last reported it. */
export type ReportedDay = typeof keyUsage.$inferSelect;

/** Rows that one query reads: some 150 bytes each, as a remote database sends them. */
const PAGE_ROWS = 10_000;

/** What is never lowered: a limiter may have forgotten what it has reported. */
const TOTALS = ["admitted", "refused", "strikes", "bans", "peakMinute", "peakDay"] as const;

/** Reports a key's totals. To repeat a report, or to come late with one, changes nothing. */
export async function reportUsage(
  database: Database,
  keyId: string,
  usage: Usage,
  now: Date,
): Promise<void> {
  for (const { day, limits, ...totals } of usage) {
    const row = { keyId, day: dayText(day), ...totals, ...limits, reportedAt: now };
    await database
      .insert(keyUsage)
      .values(row)
      .onConflictDoUpdate({
        target: [keyUsage.day, keyUsage.keyId],
        set: {
          ...Object.fromEntries(TOTALS.map((total) => [total, larger(total)])),
          perMinute: limits.perMinute,
          perDay: limits.perDay,
          reportedAt: now,
        },
        // A report without news costs no row written.
        setWhere: sql.join(
          [
            ...TOTALS.map((total) => gt(excluded(total), keyUsage[total])),
            ne(keyUsage.perMinute, limits.perMinute),
            ne(keyUsage.perDay, limits.perDay),
          ],
          sql` OR `,
        ),
      });
  }
}

/** Every key's rows, page by page, from `firstDay` (`2026-11-21`) on, in the order of days and ids. */
export async function* readUsageOfKeys(
  database: Database,
  firstDay: string,
): AsyncGenerator<ReportedDay[]> {
  let after = { day: firstDay, keyId: "" };
  for (;;) {
    const page = await database
      .select()
      .from(keyUsage)
      .where(
        and(
          gte(keyUsage.day, after.day),
          sql`(${keyUsage.day}, ${keyUsage.keyId}) > (${after.day}, ${after.keyId})`,
        ),
      )
      .orderBy(keyUsage.day, keyUsage.keyId)
      .limit(PAGE_ROWS);
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return;
    after = last;
  }
}

/** One key's rows for these days, in their order. */
export async function readUsageOfKey(
  database: Database,
  keyId: string,
  days: readonly string[],
): Promise<ReportedDay[]> {
  return database
    .select()
    .from(keyUsage)
    .where(
      and(
        // One parameter: D1 takes a hundred, and there may be more days.
        inArray(keyUsage.day, sql`(SELECT value FROM json_each(${JSON.stringify(days)}))`),
        eq(keyUsage.keyId, keyId),
      ),
    )
    .orderBy(keyUsage.day);
}

function larger(total: (typeof TOTALS)[number]): SQL {
  return sql`max(${keyUsage[total]}, ${excluded(total)})`;
}

function excluded(total: (typeof TOTALS)[number]): SQL {
  return sql.raw(`excluded.${keyUsage[total].name}`);
}
