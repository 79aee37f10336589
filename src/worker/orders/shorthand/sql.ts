import { type SQL, sql, type SQLWrapper } from "drizzle-orm";
import type { orders } from "../../../schema/orders.ts";
import { SEPARATOR } from "./letters.ts";

/** The columns of an order, in `orders` or in a table of its former states. */
type OrderColumns = Record<keyof Omit<typeof orders.$inferSelect, "status">, SQLWrapper>;

/** Returns a SQL expression for an order in shorthand. `concat` treats `NULL` as empty text. */
export function shorthandOf({ id, petId, quantity, shipDate, complete }: OrderColumns): SQL {
  return sql`concat(${id}, 'p', ${petId}, 'q', ${quantity}, 's', ${shipDate},
    CASE ${complete} WHEN 1 THEN 't' WHEN 0 THEN 'f' ELSE 'n' END)`;
}

/** Returns a SQL expression that joins the column `shorthand` of `select` into one text. */
export function joined(select: SQL): SQL {
  return sql`(SELECT ifnull(group_concat(shorthand, '${sql.raw(SEPARATOR)}'), '') FROM (${select}))`;
}
