import { gte, notInArray, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { orderImportParts } from "../db/orders-schema.ts";

/**
 * Deletes up to `limit` parts of imports that have sent nothing since a time.
 *
 * @returns the number of deleted parts.
 */
export async function deleteAbandonedParts(
  orm: BaseSQLiteDatabase<"async", unknown>,
  since: Date,
  limit: number,
): Promise<number> {
  const { importId, part, createdAt } = orderImportParts;
  const underWay = orm
    .select({ importId })
    .from(orderImportParts)
    .where(gte(createdAt, since));
  const abandoned = orm
    .select({ importId, part })
    .from(orderImportParts)
    .where(notInArray(importId, underWay))
    .limit(limit);
  const deleted = await orm
    .delete(orderImportParts)
    .where(sql`(${importId}, ${part}) IN ${abandoned}`)
    .returning({ one: sql<number>`1`.as("one") });
  return deleted.length;
}
