import { and, eq, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { queryDatabase } from "../db/availability.ts";
import { orders } from "../db/schema.ts";

/** What became of a request to cancel an order. */
export type Cancellation = "cancelled" | "already_shipped" | "not_found";

/**
 * Cancels a pending order in one atomic step (contract, section 2). An order cancelled before is no
 * longer found.
 *
 * @throws {DatabaseUnavailableError} where the database does not answer; the order may have been
 * cancelled all the same, and the request can be repeated safely.
 */
export async function cancelOrder(
  database: D1Database,
  id: bigint,
  timeoutMs: number,
): Promise<Cancellation> {
  const db = drizzle(database);
  const cancel = db
    .update(orders)
    .set({ status: "cancelled", cancelledAt: new Date() })
    .where(and(eq(orders.id, id), eq(orders.status, "pending")))
    .returning({ cancelled: sql<number>`1` });
  const read = db.select({ status: orders.status }).from(orders).where(eq(orders.id, id));

  const [cancelled, found] = await queryDatabase(timeoutMs, () => db.batch([cancel, read]));
  if (cancelled.length > 0) return "cancelled";
  return found[0]?.status === "shipped" ? "already_shipped" : "not_found";
}
