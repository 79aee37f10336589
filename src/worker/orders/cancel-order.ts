import { and, eq, sql } from "drizzle-orm";
import { cancelledOrders, orderList, orders } from "../../schema/orders.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { db, Statement } from "../db/statement.ts";

interface Cancellation {
  /** `pending`: the order was not cancelled, because `isAllowed` was false. */
  readonly result: "cancelled" | "already_shipped" | "not_found" | "pending";
  /** The list's sequence number after the cancellation; `null` if it was not asked for. */
  readonly sequence: number | null;
}

const isOrder = eq(orders.id, sql.placeholder("orderId"));
const isPending = and(isOrder, eq(orders.status, "pending"));
const { id, petId, quantity, shipDate, complete, status } = orders;

// Two statements move the order. An UPDATE and a trigger for the move would write one more row.
const KEEP = Statement.of(() =>
  db
    .insert(cancelledOrders)
    .select(
      db
        .select({
          cancelledAt: sql<Date>`${sql.placeholder("nowMs")}`.as("cancelled_at"),
          id,
          petId,
          quantity,
          shipDate,
          complete,
        })
        .from(orders)
        .where(isPending),
    )
    // An order that was placed anew and cancelled within one millisecond is already kept.
    .onConflictDoNothing(),
);
const REMOVE = Statement.of(() => db.delete(orders).where(isPending).returning({ status }));
const STATUS = Statement.of(() => db.select({ status }).from(orders).where(isOrder));
const SEQUENCE = Statement.of(() =>
  db.select({ sequence: orderList.sequence }).from(orderList).where(eq(orderList.id, 1)),
);

/**
 * Cancels a pending order in one atomic step (docs/api.md, Cancelling). Returns `not_found` for an
 * order that was already cancelled.
 *
 * @param isAllowed false if a precondition of the request is false for an order that is there: the
 *   order is only looked up.
 * @throws {DatabaseUnavailableError} if the database does not respond. The order may be cancelled
 *   nevertheless; repeating the request is safe.
 */
export async function cancelOrder(
  database: D1Database,
  orderId: bigint,
  queries: DatabaseQueries,
  { isAllowed, needsSequence }: { readonly isAllowed: boolean; readonly needsSequence: boolean },
): Promise<Cancellation> {
  const values = { orderId: String(orderId), nowMs: Date.now() };
  const steps = [
    ...(isAllowed ? [KEEP, REMOVE] : []),
    STATUS,
    ...(isAllowed && needsSequence ? [SEQUENCE] : []),
  ];
  const results = await queries.run(() =>
    database.batch(steps.map((step) => step.bind(database, values))),
  );
  const rowsOf = <Row>(step: Statement<Row>): Row[] => {
    const result = results[(steps as unknown[]).indexOf(step)];
    return result === undefined ? [] : step.rows(result);
  };
  const sequence = rowsOf(SEQUENCE)[0]?.sequence ?? null;
  if (rowsOf(REMOVE).length > 0) return { result: "cancelled", sequence };
  const found = rowsOf(STATUS)[0]?.status;
  if (found === "pending") return { result: "pending", sequence };
  return { result: found === "shipped" ? "already_shipped" : "not_found", sequence };
}
