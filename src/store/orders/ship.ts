import { and, eq, sql } from "drizzle-orm";
import { exact } from "../../schema/int64.ts";
import { orders } from "../../schema/orders.ts";
import type { StoreDatabase } from "../database.ts";

export type Shipping = "shipped" | "already_shipped" | "not_found";

/**
 * Ships pending orders in one transaction. Of a shipping and a cancellation of one order, the first
 * in the database wins.
 *
 * @param ids at most some thousand.
 * @returns what happened to each order, in the sequence of `ids`.
 */
export async function shipOrders(
  database: StoreDatabase,
  ids: readonly bigint[],
): Promise<readonly { readonly id: bigint; readonly result: Shipping }[]> {
  const { orm } = database;
  const isWanted = sql`${orders.id} IN (SELECT value FROM json_each(${`[${ids.join()}]`}))`;
  const [before = []] = await database.transaction([
    orm
      .select({ id: exact(orders.id), status: orders.status })
      .from(orders)
      .where(isWanted),
    orm
      .update(orders)
      .set({ status: "shipped" })
      .where(and(isWanted, eq(orders.status, "pending"))),
  ]);
  const statuses = new Map(before.map(([id, status]) => [String(id), status]));
  return ids.map((id) => {
    const status = statuses.get(String(id));
    if (status === undefined) return { id, result: "not_found" };
    statuses.set(String(id), "shipped");
    return { id, result: status === "pending" ? "shipped" : "already_shipped" };
  });
}
