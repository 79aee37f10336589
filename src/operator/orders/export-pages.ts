import { gte, sql } from "drizzle-orm";
import { orderList, orders } from "../../schema/orders.ts";
import { INT64_MAX, INT64_MIN } from "../../worker/orders/int64.ts";
import { JSON_MEMBERS } from "../../worker/orders/order-json.ts";
import type { StoreDatabase } from "../database/database.ts";

const { id, petId, quantity, shipDate, afterShipDate, complete, incomplete } = JSON_MEMBERS;

/**
 * A SQL expression for an order as a line of an export. SQLite creates the JSON because D1's
 * results round integers above 2^53. No value needs escaping: the schema allows only integers,
 * booleans and one form of date.
 */
const LINE = sql.raw(`'{${id}' || orders.id
  || coalesce('${petId}' || orders.pet_id, '')
  || coalesce('${quantity}' || orders.quantity, '')
  || coalesce('${shipDate}' || orders.ship_date || '${afterShipDate}', '')
  || CASE orders.complete WHEN 1 THEN '${complete}' WHEN 0 THEN '${incomplete}' ELSE '' END
  || ',"status":"' || orders.status || '"}'`);

/**
 * The number of orders in a page of an export. The longest line has 163 bytes, so a page has at most
 * 1.2 MB: well below D1's limit of 2 MB for a text.
 */
const PAGE_ORDERS = 7_500;

/** A page of an export: some of the orders. */
interface ExportPage {
  /** The orders as JSON objects. Every line, including the last line, ends with a line break. */
  readonly lines: string;
  readonly count: number;
  /** The version of the whole list of orders when this page was read. */
  readonly listVersion: string;
}

/** Returns the number of orders that an export would contain. */
export async function countOrders({ orm }: StoreDatabase): Promise<number> {
  const [row] = await orm.select({ count: sql<number>`count(*)`.as("count") }).from(orders);
  return row?.count ?? 0;
}

/**
 * Reads all orders in ascending id, as newline-delimited JSON. Reads each page with a separate
 * query, so the number of orders is not limited. The pages are a consistent snapshot if all of them
 * have the same list version.
 */
export async function* exportPages({ orm }: StoreDatabase): AsyncGenerator<ExportPage> {
  let firstId = INT64_MIN;
  for (;;) {
    const page = orm
      .select({ id: orders.id, json: sql`${LINE}`.as("json") })
      .from(orders)
      .where(gte(orders.id, firstId))
      .orderBy(orders.id)
      .limit(PAGE_ORDERS)
      .as("page");
    const [row] = await orm
      .select({
        count: sql<number>`count(*)`.as("count"),
        last: sql<string | null>`max(${page.id}) || ''`.as("last"),
        lines: sql<string>`ifnull(group_concat(${page.json}, char(10)) || char(10), '')`.as(
          "lines",
        ),
        listVersion: sql<string>`(SELECT ${orderList.version} FROM ${orderList})`.as(
          "list_version",
        ),
      })
      .from(page);
    if (row === undefined) return;
    const { lines, count, listVersion } = row;
    yield { lines, count, listVersion };
    const lastId = row.last === null ? INT64_MAX : BigInt(row.last);
    if (count < PAGE_ORDERS || lastId === INT64_MAX) return;
    firstId = lastId + 1n;
  }
}
