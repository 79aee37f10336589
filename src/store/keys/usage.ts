import { and, eq, sql } from "drizzle-orm";
import { keyUsage } from "../../schema/keys.ts";
import type { Orm } from "../database.ts";

/** The number of rows that one query reads: about 1.5 MB from a remote database. */
const PAGE_ROWS = 10_000;

/**
 * Reads the usage of one key on these days (UTC, such as `2026-11-21`), or of all keys since the first
 * one.
 */
export async function readUsage(orm: Orm, id: string | undefined, days: readonly string[]) {
  const { day, keyId } = keyUsage;
  // The primary key begins with the day, so each day is a look-up, but a range is read whole.
  const isOneOf = sql`${day} IN (SELECT value FROM json_each(${JSON.stringify(days)}))`;
  const rows: (typeof keyUsage.$inferSelect)[] = [];
  let read = rows;
  do {
    const after = rows.at(-1) ?? { day: days[0] ?? "", keyId: "" };
    const isLater = sql`(${day}, ${keyId}) > (${after.day}, ${after.keyId})`;
    const where = id === undefined ? isLater : and(isOneOf, eq(keyId, id));
    read = await orm.select().from(keyUsage).where(where).orderBy(day, keyId).limit(PAGE_ROWS);
    rows.push(...read);
  } while (read.length === PAGE_ROWS);
  return rows;
}
