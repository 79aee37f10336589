import { lt, sql } from "drizzle-orm";
import { cancelledOrders } from "../../schema/orders.ts";
import type { StoreDatabase } from "../database/database.ts";
import { startProgress } from "./progress.ts";

/** A statement deletes up to this many records, so that requests wait less than 0.1 seconds. */
const STEP_ORDERS = 10_000;

export async function countCancelled(database: StoreDatabase, before: Date): Promise<number> {
  return database.orm.$count(cancelledOrders, lt(cancelledOrders.cancelledAt, before));
}

/**
 * Deletes the records of orders that were cancelled before a time. Small transactions let the
 * service use the database in between. Safe to repeat. Only the progress display uses `total`.
 */
export async function purgeCancelled(
  database: StoreDatabase,
  before: Date,
  total: number,
): Promise<number> {
  using progress = startProgress({ doing: "Deleting", unit: "orders", total });
  const { cancelledAt, id } = cancelledOrders;
  const old = database.orm
    .select({ cancelledAt, id })
    .from(cancelledOrders)
    .where(lt(cancelledAt, before))
    .orderBy(cancelledAt, id)
    .limit(STEP_ORDERS);
  const step = database.orm
    .delete(cancelledOrders)
    .where(sql`(${cancelledAt}, ${id}) IN ${old}`)
    .returning({ one: sql`1` });
  let purged = 0;
  for (;;) {
    const deleted = await step;
    purged += deleted.length;
    progress.advance(deleted.length);
    if (deleted.length < STEP_ORDERS) return purged;
  }
}
