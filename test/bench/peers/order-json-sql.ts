import { sql } from "drizzle-orm";
import { SQLiteSyncDialect } from "drizzle-orm/sqlite-core";
import { JSON_MEMBERS, orderText } from "../../../src/orders/order-text.ts";

/** The service's own SQL for the JSON text of one order, so that the peers send the same bytes. */
export const ORDER_JSON_SQL = new SQLiteSyncDialect().sqlToQuery(
  sql`'{' || ${orderText(JSON_MEMBERS)} || '}'`,
).sql;
