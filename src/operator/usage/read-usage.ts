import { and, eq, gte, inArray, sql } from "drizzle-orm";
import { apiKeys, keyUsage } from "../../schema/keys.ts";
import type { StoreDatabase } from "../database/database.ts";
import { readBanDays } from "../key-store/key-bans.ts";
import { requireApiKey } from "../key-store/change-key.ts";
import { lastDays, type ReportedDay, reportOn, type UsageReport } from "./usage-report.ts";

/**
 * The number of rows of the table `key_usage` that one query reads. A remote database sends about
 * 150 bytes for each row, so about 1.5 MB for each query.
 */
const PAGE_ROWS = 10_000;

/**
 * Reads the usage of all keys, or of the key with this id.
 *
 * @param id the id of the key; `undefined` reads all keys.
 * @param days the number of days to read, including today.
 * @throws an Error for the operator if no key has this id.
 */
export async function readReport(
  { orm }: StoreDatabase,
  id: string | undefined,
  days: number,
  now: Date,
): Promise<UsageReport> {
  const range = lastDays(days, now);
  const [firstDay = ""] = range;
  const readBans = () => readBanDays(orm, { keyId: id, firstDay, now });
  if (id !== undefined) {
    const key = await requireApiKey(orm, id);
    const rows = await readUsageOfKey(orm, id, range);
    return reportOn([key], range, { rows, banDays: await readBans(), now });
  }
  const { id: keyId, name, plan, perMinute, perDay, createdAt } = apiKeys;
  const keys = await orm
    .select({ id: keyId, name, plan, perMinute, perDay })
    .from(apiKeys)
    .orderBy(createdAt, keyId);
  const rows: ReportedDay[] = [];
  for await (const page of readUsageOfKeys(orm, firstDay)) {
    for (const row of page) rows.push(row);
  }
  return reportOn(keys, range, { rows, banDays: await readBans(), now });
}

/**
 * Reads the usage of all keys since a day, in pages ordered by day and key id.
 *
 * @param firstDay the first day to read, in the form `2026-11-21`.
 */
async function* readUsageOfKeys(
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
