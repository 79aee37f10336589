import { desc, eq, type SQL } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { exact } from "../../schema/int64.ts";
import { cancelledOrders, LISTED_FIELDS, orders } from "../../schema/orders.ts";
import type { Orm } from "../database.ts";

/** A stored order. A field is `null` if the order lacks it. */
export interface FoundOrder extends Readonly<Omit<typeof orders.$inferSelect, "status">> {
  readonly status: "pending" | "shipped" | "cancelled";
  readonly cancelledAt: Date | null;
  /** The id of the API key that cancelled the order; `null` if it is not cancelled, or not known. */
  readonly cancelledBy: string | null;
}

type Columns = {
  [Name in (typeof LISTED_FIELDS)[number]]: SQL<(typeof orders.$inferSelect)[Name]>;
};

/** Returns the columns of an order, with exact integers. */
export function exactColumns(table: typeof orders | typeof cancelledOrders) {
  const columns = LISTED_FIELDS.map((name) => {
    const column: SQLiteColumn = table[name];
    return [name, column.dataType === "custom" ? exact(column) : column];
  });
  return Object.fromEntries(columns) as Columns;
}

/** Finds an order by its id, also if it is cancelled; of several cancelled ones the last. */
export async function findOrder(orm: Orm, id: bigint): Promise<FoundOrder | undefined> {
  const listed = orm.select({ ...exactColumns(orders), status: orders.status }).from(orders);
  const [order] = await listed.where(eq(orders.id, id));
  if (order !== undefined) return { ...order, cancelledAt: null, cancelledBy: null };
  const { cancelledAt, cancelledBy, position } = cancelledOrders;
  const [cancelled] = await orm
    .select({ ...exactColumns(cancelledOrders), cancelledAt, cancelledBy })
    .from(cancelledOrders)
    .where(eq(cancelledOrders.id, id))
    .orderBy(desc(position))
    .limit(1);
  return cancelled && { ...cancelled, status: "cancelled" };
}
