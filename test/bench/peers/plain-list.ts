import { asc, ne } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { Hono } from "hono";

const orders = sqliteTable("orders", {
  id: integer("id").primaryKey(),
  petId: integer("pet_id"),
  quantity: integer("quantity"),
  shipDate: text("ship_date"),
  complete: integer("complete", { mode: "boolean" }),
  status: text("status").notNull(),
});

const { status, ...listed } = {
  id: orders.id,
  petId: orders.petId,
  quantity: orders.quantity,
  shipDate: orders.shipDate,
  complete: orders.complete,
  status: orders.status,
};

/** The simplest Worker that returns the list. It rounds integers above 2^53. */
export default new Hono<{ Bindings: { ORDERS: D1Database } }>().get("*", async (c) => {
  const db = drizzle(c.env.ORDERS);
  return c.json(
    await db
      .select(listed)
      .from(orders)
      .where(ne(status, "cancelled"))
      .orderBy(asc(orders.id))
      .all(),
  );
});
