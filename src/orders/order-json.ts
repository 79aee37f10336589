import { sql } from "drizzle-orm";
import { orders } from "../db/schema.ts";

/**
 * SQL for the members of an order's JSON object, without the braces. SQLite writes the text because
 * it writes int64 digit for digit, which D1's own results do not; nothing needs escaping, as the
 * schema admits only digits and one form of date.
 */
export const orderJsonFields = sql<string>`'"id":' || ${orders.id}
  || coalesce(',"petId":' || ${orders.petId}, '')
  || coalesce(',"quantity":' || ${orders.quantity}, '')
  || coalesce(',"shipDate":"' || ${orders.shipDate} || '"', '')
  || CASE ${orders.complete} WHEN 1 THEN ',"complete":true' WHEN 0 THEN ',"complete":false' ELSE '' END`;

/** The length of the longest order as JSON text, with its braces and the comma after it. */
export const MAX_ORDER_BYTES =
  '{"id":-9223372036854775808,"petId":-9223372036854775808,"quantity":-9223372036854775808,"shipDate":"0000-00-00T00:00:00.000Z","complete":false},'
    .length;
