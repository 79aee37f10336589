import { type SQL, sql } from "drizzle-orm";
import { orderSegments } from "../../worker/db/orders-schema.ts";
import { INT64_MIN } from "../../worker/orders/int64.ts";
import type { StoreDatabase } from "../database/database.ts";

/** Orders in a new segment: it can grow by half before a trigger splits it. */
const SEGMENT_ORDERS = 8_192;

/**
 * An import with at least this share of the store's orders is a bulk change. The triggers take about
 * a microsecond and two written rows for each order of the file. A rebuild reads the whole store,
 * 0.1 microseconds an order, and every list that was cached has to be read again, 0.3 microseconds.
 */
const BULK_SHARE = 1 / 8;

const HAS_CHANGED = sql`EXISTS (SELECT 1 FROM order_bulk_change WHERE changed > 0)`;
const FIRST_ID = sql.raw(String(INT64_MIN));

/** Whether an import of so many orders rebuilds the segments instead of keeping them row by row. */
export async function isBulkChange({ orm }: StoreDatabase, orderCount: number): Promise<boolean> {
  const [store] = await orm
    .select({ count: sql<number>`ifnull(sum(${orderSegments.count}), 0)`.as("count") })
    .from(orderSegments);
  return orderCount >= (store?.count ?? 0) * BULK_SHARE;
}

/** Makes the triggers that keep the segments stand aside until the same transaction ends the change. */
export function beginBulkChange(): SQL {
  return sql`INSERT INTO order_bulk_change (id, changed) VALUES (1, 0)`;
}

/** Notes before a placement whether it will change anything. Stops at the first order that differs. */
export function noteBulkChange(stagedOrders: SQL, differs: SQL): SQL {
  return sql`
    UPDATE order_bulk_change SET changed = 1
    WHERE changed = 0 AND EXISTS (
      SELECT 1 FROM ${stagedOrders} LEFT JOIN orders ON orders.id = staged.id WHERE ${differs})`;
}

/**
 * Rebuilds the segments and gives the list a new version, if an order changed, and lets the triggers
 * act again. One statement steps through all orders: 10 million in about a second, and 100 million
 * (which fill the 10 GB of a D1 database) well within the 30 seconds that D1 allows.
 */
export function endBulkChange(): SQL[] {
  return [
    sql`DELETE FROM order_segments WHERE ${HAS_CHANGED}`,
    sql`
      INSERT INTO order_segments (first_id, version, count)
      WITH RECURSIVE segment (first_id, next_id) AS (
        SELECT ${FIRST_ID}, (SELECT id FROM orders ORDER BY id LIMIT 1 OFFSET ${SEGMENT_ORDERS})
        WHERE ${HAS_CHANGED}
        UNION ALL
        SELECT next_id, (
          SELECT id FROM orders WHERE id >= segment.next_id ORDER BY id LIMIT 1 OFFSET ${SEGMENT_ORDERS})
        FROM segment WHERE next_id IS NOT NULL)
      SELECT first_id, lower(hex(randomblob(16))), iif(
        next_id IS NULL, (SELECT count(*) FROM orders WHERE id >= first_id), ${SEGMENT_ORDERS})
      FROM segment`,
    sql`UPDATE order_list SET version = lower(hex(randomblob(16))) WHERE ${HAS_CHANGED}`,
    sql`DELETE FROM order_bulk_change`,
  ];
}
