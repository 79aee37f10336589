import { type SQL, sql } from "drizzle-orm";
import { orderSegments } from "../../worker/db/orders-schema.ts";
import { INT64_MIN } from "../../worker/orders/int64.ts";
import type { StoreDatabase } from "../database/database.ts";

/** Orders in a new segment. A trigger splits it once it has grown by half. */
const SEGMENT_ORDERS = 8_192;

/**
 * An import of at least this share of the store's orders is a bulk change. The triggers cost about
 * 1 µs and two written rows for each order of the file. A rebuild costs 0.1 µs for each order of
 * the store, and then every cached list is read again, at 0.3 µs an order.
 */
const BULK_SHARE = 1 / 8;

const HAS_CHANGED = sql`EXISTS (SELECT 1 FROM order_bulk_change WHERE changed > 0)`;
const FIRST_ID = sql.raw(String(INT64_MIN));

/**
 * Decides whether an import of this many orders is a bulk change, which rebuilds all segments. A
 * smaller import leaves it to triggers to update the segments row by row.
 */
export async function isBulkChange({ orm }: StoreDatabase, orderCount: number): Promise<boolean> {
  const [store] = await orm
    .select({ count: sql<number>`ifnull(sum(${orderSegments.count}), 0)`.as("count") })
    .from(orderSegments);
  return orderCount >= (store?.count ?? 0) * BULK_SHARE;
}

/** Disables the segment triggers until `endBulkChange` in the same transaction. */
export function beginBulkChange(): SQL {
  return sql`INSERT INTO order_bulk_change (id, changed) VALUES (1, 0)`;
}

/** Records, before orders are placed, whether any of them differs from the stored one. */
export function noteBulkChange(stagedOrders: SQL, differs: SQL): SQL {
  return sql`
    UPDATE order_bulk_change SET changed = 1
    WHERE changed = 0 AND EXISTS (
      SELECT 1 FROM ${stagedOrders} LEFT JOIN orders ON orders.id = staged.id WHERE ${differs})`;
}

/**
 * Rebuilds the segments and gives the list a new version, if an order changed. Enables the triggers
 * again. One statement steps through all orders: 10 million take about a second. 100 million orders
 * fill D1's 10 GB and stay well within its 30 seconds.
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
