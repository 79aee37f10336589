import { and, eq, sql } from "drizzle-orm";
import { cancelledOrders, ORDER_FIELDS, orderList, orders } from "../../schema/orders.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { db, Statement } from "../db/statement.ts";

type Cancellation = "cancelled" | "already_shipped" | "not_found" | "precondition_failed";

const { id, status } = orders;
const isOrder = eq(id, sql.placeholder("id"));
const isPending = and(isOrder, eq(status, "pending"));

// Two statements move the order. An UPDATE and a trigger for the move would write one more row.
const KEEP = Statement.ofSql<never>(() => {
  const fields = sql.raw(ORDER_FIELDS.join());
  const { position } = cancelledOrders;
  return sql`
    INSERT INTO ${cancelledOrders} (position, cancelled_at, cancelled_by, id, ${fields})
    SELECT
      max(${orderList.sequence} + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER),
        ifnull((SELECT max(${position}) + 1 FROM ${cancelledOrders}), 0)),
      CAST(unixepoch('subsec') * 1000 AS INTEGER), ${sql.placeholder("keyId")}, ${id}, ${fields}
    FROM ${orders} CROSS JOIN ${orderList} WHERE ${isPending}`;
});
const REMOVE = Statement.of(() => db.delete(orders).where(isPending).returning({ status }));
const STATUS = Statement.of(() => db.select({ status }).from(orders).where(isOrder));

/**
 * Cancels a pending order in one atomic step (docs/api.md, Cancelling). Returns `not_found` for an
 * order that was already cancelled.
 *
 * @param keyId the API key that asks for it, for the record.
 * @param isAllowed false if a precondition of the request is false: nothing is changed.
 * @throws {DatabaseUnavailableError} if the database does not respond. The order may be cancelled
 *   nevertheless; repeating the request is safe.
 */
export async function cancelOrder(
  database: D1Database,
  orderId: bigint,
  queries: DatabaseQueries,
  { keyId, isAllowed }: { readonly keyId: string; readonly isAllowed: boolean },
): Promise<Cancellation> {
  const values = { id: String(orderId), keyId };
  const statements = [STATUS, ...(isAllowed ? [KEEP, REMOVE] : [])];
  const bound = statements.map((statement) => statement.bind(database, values));
  const [result] = await queries.run(() => database.batch(bound));
  const [order] = result === undefined ? [] : STATUS.rows(result);
  if (order === undefined) return "not_found";
  if (order.status === "shipped") return "already_shipped";
  return isAllowed ? "cancelled" : "precondition_failed";
}
