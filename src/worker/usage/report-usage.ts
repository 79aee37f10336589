import { gt, ne, type SQL, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { keyUsage } from "../db/keys-schema.ts";
import { dayText, type Usage } from "./day-usage.ts";

/** The totals that a report never lowers, because a limiter may have forgotten what it reported. */
const TOTALS = ["admitted", "refused", "strikes", "bans", "peakMinute", "peakDay"] as const;

/**
 * Writes a key's usage to the database. Repeating a report, or making one late, changes nothing.
 * In return, the database cannot correct a total that was too high.
 */
export async function reportUsage(
  database: BaseSQLiteDatabase<"async", unknown>,
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
        // A report without news writes no row, so it costs none.
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

function larger(total: (typeof TOTALS)[number]): SQL {
  return sql`max(${keyUsage[total]}, ${excluded(total)})`;
}

function excluded(total: (typeof TOTALS)[number]): SQL {
  return sql.raw(`excluded.${keyUsage[total].name}`);
}
