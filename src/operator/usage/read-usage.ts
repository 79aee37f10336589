import { and, eq, gte, inArray, sql } from "drizzle-orm";
import { keyUsage } from "../../worker/db/keys-schema.ts";
import type { StoreDatabase } from "../database/database.ts";

/** The usage of a key on one day in UTC, as its limiter last reported it. */
export type ReportedDay = typeof keyUsage.$inferSelect;

/** Rows that one query reads: about 150 bytes each, as a remote database sends them. */
const PAGE_ROWS = 10_000;

/** Reads every key's rows from `firstDay` (`2026-11-21`) on, page by page, by day and key id. */
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

/** Reads one key's rows for these days, in the order of the days. */
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
        // One parameter for all days, because D1 takes at most a hundred.
        inArray(keyUsage.day, sql`(SELECT value FROM json_each(${JSON.stringify(days)}))`),
        eq(keyUsage.keyId, keyId),
      ),
    )
    .orderBy(keyUsage.day);
}
