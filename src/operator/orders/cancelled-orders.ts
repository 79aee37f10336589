import { type SQL, sql } from "drizzle-orm";
import type { CancelledRecord } from "../../rules/order.ts";
import { cancelledOrders, ORDER_FIELDS, orders } from "../../schema/orders.ts";
import type { Orm } from "../../store/database.ts";
import { listOf, stagedOrders } from "../../store/orders/placement.ts";

/** The fields of a cancelled order after its position and time, as an import stages them. */
export const CANCELLED_FIELDS = [
  "cancelledBy",
  "id",
  "petId",
  "quantity",
  "shipDate",
  "complete",
] as const satisfies readonly (keyof CancelledRecord)[];

const COLUMNS = ["position", "cancelled_at", "cancelled_by", "id", ...ORDER_FIELDS];

/** Returns SQL that reads the cancelled orders of a source as the table `staged`. */
export const stagedCancelled = (source: SQL) => stagedOrders(source, COLUMNS);

/** Counts the staged cancelled orders that the store lacks, and those that it has. */
export async function compareCancelled(orm: Orm, tables: Iterable<SQL>) {
  const counts = { cancelled: 0, unchanged: 0 };
  for (const staged of tables) {
    const isKept = sql`kept.position = staged.position
      AND (${listOf((name) => `kept.${name}`, COLUMNS)}) IS (${listOf((name) => `staged.${name}`, COLUMNS)})`;
    const [row] = await orm
      .select({
        all: sql<number>`count(*)`,
        kept: sql<number>`count(kept.position)`,
      })
      .from(sql`${staged} LEFT JOIN cancelled_orders AS kept ON ${isKept}`);
    counts.unchanged += row?.kept ?? 0;
    counts.cancelled += (row?.all ?? 0) - (row?.kept ?? 0);
  }
  return counts;
}

const IS_NOT_EMPTY = sql`(EXISTS (SELECT 1 FROM ${orders}) OR EXISTS (SELECT 1 FROM ${cancelledOrders}))`;

/** @throws an Error for the operator if the store has orders, cancelled or not. */
export async function requireEmptyStore(orm: Orm): Promise<void> {
  const [row] = await orm.select({ is: sql<number>`${IS_NOT_EMPTY}` }).from(sql`(SELECT 1)`);
  if (row?.is !== 1) return;
  throw new Error(
    'the file has cancelled orders, which only an empty store takes, and this store has orders: name a new store, or leave out the lines with "status":"cancelled"',
  );
}

/** Statements that store the cancelled orders of parts, and fail if the store has orders. */
export function placingCancelled(tables: readonly SQL[]): SQL[] {
  const columns = sql.raw(COLUMNS.join());
  return [
    sql`INSERT INTO order_bulk_change (id) SELECT 2 WHERE ${IS_NOT_EMPTY}`,
    ...tables.map(
      (staged) => sql`INSERT INTO cancelled_orders (${columns}) SELECT ${columns} FROM ${staged}`,
    ),
  ];
}
