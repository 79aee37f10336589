import { and, eq, sql } from "drizzle-orm";
import { cancelledOrders, ORDER_FIELDS, orderList, orders } from "../../schema/orders.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { db, Statement } from "../db/statement.ts";

interface Cancellation {
  readonly result: "cancelled" | "already_shipped" | "not_found" | "precondition_failed";
  /** The list's sequence number after the cancellation; `null` without `needsSequence`. */
  readonly sequence: number | null;
}

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
const SEQUENCE = Statement.of(() =>
  db.select({ sequence: orderList.sequence }).from(orderList).where(eq(orderList.id, 1)),
);

/**
 * Cancels a pending order in one atomic step (docs/api.md, Cancelling). Returns `not_found` for an
 * order that was already cancelled.
 *
 * @param options.keyId the API key that asks for it, for the record.
 * @param options.isAllowed false if a precondition of the request is false: nothing is changed.
 * @throws {DatabaseUnavailableError} if the database does not respond. The order may be cancelled
 *   nevertheless; repeating the request is safe.
 */
export async function cancelOrder(
  database: D1Database,
  orderId: bigint,
  queries: DatabaseQueries,
  options: {
    readonly keyId: string;
    readonly needsSequence: boolean;
    readonly isAllowed: boolean;
  },
): Promise<Cancellation> {
  const values = { id: String(orderId), keyId: options.keyId };
  const statements: readonly Statement<unknown>[] = [
    STATUS,
    ...(options.isAllowed ? [KEEP, REMOVE] : []),
    ...(options.needsSequence ? [SEQUENCE] : []),
  ];
  const results = await queries.run(() =>
    database.batch(statements.map((statement) => statement.bind(database, values))),
  );
  const rowsAt = <Row>(statement: Statement<Row>) => {
    const result = results[statements.indexOf(statement)];
    return result === undefined ? [] : statement.rows(result);
  };
  const [order] = rowsAt(STATUS);
  const [list] = rowsAt(SEQUENCE);
  const sequence = list?.sequence ?? null;
  if (order === undefined) return { result: "not_found", sequence };
  if (order.status === "shipped") return { result: "already_shipped", sequence };
  return { result: options.isAllowed ? "cancelled" : "precondition_failed", sequence };
}
