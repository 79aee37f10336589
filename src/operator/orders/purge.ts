import { sql } from "drizzle-orm";
import { cancelledOrders } from "../../worker/db/orders-schema.ts";
import { deleteCancelled, wasCancelledBefore } from "../../worker/orders/cancelled-orders.ts";
import type { StoreDatabase } from "../database/database.ts";
import { startProgress } from "./progress.ts";

/** Orders deleted in one step. A step keeps the service waiting for some hundredths of a second. */
const STEP_ORDERS = 10_000;

/** Counts the orders that were cancelled before a time. */
export async function countCancelled({ orm }: StoreDatabase, before: Date): Promise<number> {
  const [row] = await orm
    .select({ count: sql<number>`count(*)`.as("count") })
    .from(cancelledOrders)
    .where(wasCancelledBefore(before));
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
  let purged = 0;
  for (;;) {
    const deleted = await deleteCancelled(orm, before, STEP_ORDERS);
    purged += deleted;
    progress.advance(deleted);
    if (deleted < STEP_ORDERS) return purged;
  }
}
