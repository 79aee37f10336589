import { sql } from "drizzle-orm";
import { SQLiteSyncDialect } from "drizzle-orm/sqlite-core";
import { orderJsonMembers } from "../../../src/orders/order-json.ts";

/** The service's own SQL for the JSON text of one order, so that the peers send the same bytes. */
export const ORDER_JSON_SQL = new SQLiteSyncDialect().sqlToQuery(
  sql`'{' || ${orderJsonMembers} || '}'`,
).sql;
