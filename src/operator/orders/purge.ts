import { type SQL, sql } from "drizzle-orm";
import { cancelledOrders } from "../../worker/db/orders-schema.ts";
import type { StoreDatabase } from "../database/database.ts";
import { startProgress } from "./progress.ts";

/** Orders deleted in one step. A step keeps the service waiting for some hundredths of a second. */
const STEP_ORDERS = 10_000;

/** Counts the orders that were cancelled before a time. */
export async function countCancelled({ orm }: StoreDatabase, before: Date): Promise<number> {
  const [row] = await orm
    .select({ count: sql<number>`count(*)`.as("count") })
    .from(cancelledOrders)
    .where(isBefore(before));
  return row?.count ?? 0;
}

/**
 * Deletes the orders that were cancelled before a time, in small transactions between which the
 * service works. After a failure it can run again.
 *
 * @param total the number of these orders, for the progress display.
 * @returns the number of deleted orders.
 */
export async function purgeCancelled(
  { orm }: StoreDatabase,
  before: Date,
  total: number,
): Promise<number> {
  using progress = startProgress({ doing: "Deleting", unit: "orders", total });
  const { cancelledAt, id } = cancelledOrders;
  const step = orm
    .select({ cancelledAt, id })
    .from(cancelledOrders)
    .where(isBefore(before))
    .orderBy(cancelledAt, id)
    .limit(STEP_ORDERS);
  let purged = 0;
  for (;;) {
    const deleted = await orm
      .delete(cancelledOrders)
      .where(sql`(${cancelledAt}, ${id}) IN ${step}`)
      .returning({ one: sql<number>`1`.as("one") });
    purged += deleted.length;
    progress.advance(deleted.length);
    if (deleted.length < STEP_ORDERS) return purged;
  }
}

function isBefore(time: Date): SQL {
  return sql`${cancelledOrders.cancelledAt} < ${time.getTime()}`;
}
