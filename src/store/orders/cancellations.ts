import { gt } from "drizzle-orm";
import { cancelledOrders } from "../../schema/orders.ts";
import type { Orm } from "../database.ts";
import { exactColumns } from "./find-order.ts";

/**
 * Reads cancelled orders in the order in which they were cancelled. The cancelling transaction sets
 * the position, and positions grow, so a reader that goes on after the last one hears of each once.
 *
 * @param after only larger positions are read; 0 for the first.
 */
export function readCancellations(orm: Orm, after: number, limit: number) {
  const { position, cancelledAt, cancelledBy } = cancelledOrders;
  return orm
    .select({ position, ...exactColumns(cancelledOrders), cancelledAt, cancelledBy })
    .from(cancelledOrders)
    .where(gt(position, after))
    .orderBy(position)
    .limit(limit);
}
