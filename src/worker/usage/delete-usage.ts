import { lt, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { keyUsage } from "../db/keys-schema.ts";

/**
 * Deletes up to `limit` rows of usage of days before the one of `time` in UTC, the oldest first.
 *
 * @returns the number of deleted rows, each of a key and day.
 */
export async function deleteUsageBefore(
  orm: BaseSQLiteDatabase<"async", unknown>,
  time: Date,
  limit: number,
): Promise<number> {
  const { day, keyId } = keyUsage;
  const oldest = orm
    .select({ day, keyId })
    .from(keyUsage)
    .where(lt(day, time.toISOString().slice(0, 10)))
    .orderBy(day, keyId)
    .limit(limit);
  const deleted = await orm
    .delete(keyUsage)
    .where(sql`(${day}, ${keyId}) IN ${oldest}`)
    .returning({ one: sql<number>`1`.as("one") });
  return deleted.length;
}
