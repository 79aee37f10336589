import { lt, sql } from "drizzle-orm";
import { cancelledOrders } from "../../schema/orders.ts";
import type { StoreDatabase } from "../database/database.ts";
import { startProgress } from "./progress.ts";

const { cancelledAt, id } = cancelledOrders;

/** The orders of one step of a purge. Requests wait some hundredths of a second for a step. */
const STEP_ORDERS = 10_000;

export async function countCancelled({ orm }: StoreDatabase, before: Date): Promise<number> {
  return orm.$count(cancelledOrders, lt(cancelledAt, before));
}

/**
 * Deletes the records of orders that were cancelled before a time, in small transactions, so that
 * the service can use the database between them. Safe to repeat. `total` is the expected number.
 */
export async function purgeCancelled(
  { orm }: StoreDatabase,
  before: Date,
  total: number,
): Promise<number> {
  using progress = startProgress({ doing: "Deleting", unit: "orders", total });
  const step = orm
    .select({ cancelledAt, id })
    .from(cancelledOrders)
    .where(lt(cancelledAt, before))
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
