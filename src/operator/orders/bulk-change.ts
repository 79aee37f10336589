import { type SQL, sql } from "drizzle-orm";
import { orderSegments } from "../../schema/orders.ts";
import { INT64_MIN } from "../../worker/orders/int64.ts";
import type { StoreDatabase } from "../database/database.ts";
import type { ImportSizes } from "./staging.ts";

/**
 * An import is a bulk change if it has at least this share of the store's orders. The share
 * balances the costs of two ways to update the segments:
 *
 * - Triggers take about 1 µs and write two rows for each order of the imported file.
 * - A rebuild of all segments takes 0.1 µs for each order of the store. Afterwards every isolate
 *   reads all orders again, which takes 0.3 µs for each order.
 */
const BULK_SHARE = 1 / 8;

const HAS_CHANGED = sql`EXISTS (SELECT 1 FROM order_bulk_change WHERE changed > 0)`;
const FIRST_ID = sql.raw(String(INT64_MIN));

/**
 * Decides whether an import of this many orders is a bulk change. A bulk change rebuilds all
 * segments at the end. During a smaller import, triggers update the segments row by row.
 */
export async function isBulkChange({ orm }: StoreDatabase, orderCount: number): Promise<boolean> {
  const [store] = await orm
    .select({ count: sql<number>`ifnull(sum(${orderSegments.count}), 0)`.as("count") })
    .from(orderSegments);
  return orderCount >= (store?.count ?? 0) * BULK_SHARE;
}

/** Returns the statement that disables the segment triggers until `endBulkChange`. */
export function beginBulkChange(): SQL {
  return sql`INSERT INTO order_bulk_change (id, changed) VALUES (1, 0)`;
}

/**
 * Returns the statement that records whether any order of the import differs from the stored order.
 * Must run before the orders of the import are written to the table `orders`.
 */
export function noteBulkChange(stagedOrders: SQL, differs: SQL): SQL {
  return sql`
    UPDATE order_bulk_change SET changed = 1
    WHERE changed = 0 AND EXISTS (
      SELECT 1 FROM ${stagedOrders} LEFT JOIN orders ON orders.id = staged.id WHERE ${differs})`;
}

/**
 * Returns the statements that end a bulk change. If an order has changed, the statements rebuild
 * the segments and give the list of orders a new version. In any case, they enable the segment
 * triggers again.
 *
 * The rebuild reads all orders in one statement, in about a second for 10 million orders. D1 limits
 * a statement to 30 seconds and a database to 10 GB, about 100 million orders.
 */
export function endBulkChange({ segmentOrders }: ImportSizes): SQL[] {
  return [
    sql`DELETE FROM order_segments WHERE ${HAS_CHANGED}`,
    sql`
      INSERT INTO order_segments (first_id, version, count)
      WITH RECURSIVE segment (first_id, next_id) AS (
        SELECT ${FIRST_ID}, (SELECT id FROM orders ORDER BY id LIMIT 1 OFFSET ${segmentOrders})
        WHERE ${HAS_CHANGED}
        UNION ALL
        SELECT next_id, (
          SELECT id FROM orders WHERE id >= segment.next_id ORDER BY id LIMIT 1 OFFSET ${segmentOrders})
        FROM segment WHERE next_id IS NOT NULL)
      SELECT first_id, lower(hex(randomblob(16))), iif(
        next_id IS NULL, (SELECT count(*) FROM orders WHERE id >= first_id), ${segmentOrders})
      FROM segment`,
    sql`UPDATE order_list SET version = lower(hex(randomblob(16))) WHERE ${HAS_CHANGED}`,
    sql`DELETE FROM order_bulk_change`,
  ];
}
