import { and, eq, sql } from "drizzle-orm";
import { keyUsage } from "../../schema/keys.ts";
import type { Orm } from "../database.ts";

/** The number of rows that one query reads: about 1.5 MB from a remote database. */
const PAGE_ROWS = 10_000;

/** Reads the usage of all keys, or of one, since a day (UTC, such as `2026-11-21`). */
export async function readUsage(orm: Orm, id: string | undefined, firstDay: string) {
  const { day, keyId } = keyUsage;
  const rows: (typeof keyUsage.$inferSelect)[] = [];
  let read = rows;
  do {
    const after = rows.at(-1) ?? { day: firstDay, keyId: "" };
    const isLater = sql`(${day}, ${keyId}) > (${after.day}, ${after.keyId})`;
    const where = and(isLater, id === undefined ? undefined : eq(keyId, id));
    read = await orm.select().from(keyUsage).where(where).orderBy(day, keyId).limit(PAGE_ROWS);
    rows.push(...read);
  } while (read.length === PAGE_ROWS);
  return rows;
}
