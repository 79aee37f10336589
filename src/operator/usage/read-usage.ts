import { and, eq, gte, inArray, sql } from "drizzle-orm";
import { keyUsage } from "../../schema/keys.ts";
import type { StoreDatabase } from "../database/database.ts";

/** The usage of a key on one day in UTC, as its limiter last reported it. */
export type ReportedDay = typeof keyUsage.$inferSelect;

/**
 * The number of rows of the table `key_usage` that one query reads. A remote database sends about
 * 150 bytes for each row, so about 1.5 MB for each query.
 */
const PAGE_ROWS = 10_000;

/**
 * Reads the usage of all keys since a day, in pages ordered by day and key id.
 *
 * @param firstDay the first day to read, in the form `2026-11-21`.
 */
export async function* readUsageOfKeys(
  database: StoreDatabase["orm"],
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

/** Reads the usage of one key on these days, in the order of the days. */
export async function readUsageOfKey(
  database: StoreDatabase["orm"],
  keyId: string,
  days: readonly string[],
): Promise<ReportedDay[]> {
  return database
    .select()
    .from(keyUsage)
    .where(
      and(
        // Passes all days as one parameter, because D1 allows at most 100 parameters.
        inArray(keyUsage.day, sql`(SELECT value FROM json_each(${JSON.stringify(days)}))`),
        eq(keyUsage.keyId, keyId),
      ),
    )
    .orderBy(keyUsage.day);
}
