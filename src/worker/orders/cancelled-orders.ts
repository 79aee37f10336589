import { type SQL, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { cancelledOrders } from "../db/orders-schema.ts";

/**
 * Deletes up to `limit` orders that were cancelled before a time, the oldest first. The list never
 * had them, so its version stays.
 *
 * @returns the number of deleted orders.
 */
export async function deleteCancelled(
  orm: BaseSQLiteDatabase<"async", unknown>,
  before: Date,
  limit: number,
): Promise<number> {
  const { cancelledAt, id } = cancelledOrders;
  const oldest = orm
    .select({ cancelledAt, id })
    .from(cancelledOrders)
    .where(wasCancelledBefore(before))
    .orderBy(cancelledAt, id)
    .limit(limit);
  const deleted = await orm
    .delete(cancelledOrders)
    .where(sql`(${cancelledAt}, ${id}) IN ${oldest}`)
    .returning({ one: sql<number>`1`.as("one") });
  return deleted.length;
}

/** The condition that an order was cancelled before a time. */
export function wasCancelledBefore(time: Date): SQL {
  return sql`${cancelledOrders.cancelledAt} < ${time.getTime()}`;
}
