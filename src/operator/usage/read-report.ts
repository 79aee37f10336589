import { readBanDays } from "../key-store/key-bans.ts";
import { requireApiKey } from "../key-store/require-api-key.ts";
import { apiKeys } from "../../worker/db/keys-schema.ts";
import { lastDays, reportOn, type UsageReport } from "./usage-report.ts";
import { type ReportedDay, readUsageOfKey, readUsageOfKeys } from "./read-usage.ts";
import type { StoreDatabase } from "../database/database.ts";

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
