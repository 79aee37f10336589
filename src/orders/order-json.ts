import { sql } from "drizzle-orm";
import { orders } from "../db/schema.ts";

/**
 * SQL for the members of an order's JSON object, without the braces. SQLite writes the text because
 * it writes int64 digit for digit, which D1's own results do not; nothing needs escaping, as the
 * schema admits only digits and one form of date. At most 150 bytes.
 */
export const orderJsonFields = sql<string>`'"id":' || ${orders.id}
  || coalesce(',"petId":' || ${orders.petId}, '')
  || coalesce(',"quantity":' || ${orders.quantity}, '')
  || coalesce(',"shipDate":"' || ${orders.shipDate} || '"', '')
  || CASE ${orders.complete} WHEN 1 THEN ',"complete":true' WHEN 0 THEN ',"complete":false' ELSE '' END`;
