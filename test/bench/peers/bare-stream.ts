import { INT64_MAX, INT64_MIN } from "../../../src/worker/orders/int64.ts";
import { ORDER_JSON_SQL } from "./order-json-sql.ts";

/**
 * The number of orders that this Worker reads with one query. The service reads imported orders in
 * parts of the same size.
 */
const PAGE_ORDERS = 8_192;

interface Env {
  readonly ORDERS: D1Database;
}

interface Page {
  readonly last: string | null;
  readonly count: number;
  readonly json: string | null;
}

const PAGE_SQL = `SELECT max(id) || '' AS last, count(*) AS count, group_concat(json, ',') AS json
  FROM (SELECT id, ${ORDER_JSON_SQL} AS json FROM orders
        WHERE id >= CAST(? AS INTEGER) AND status <> 'cancelled' ORDER BY id LIMIT ${PAGE_ORDERS})`;

/**
 * A Worker that only streams the list in pages. While it sends a page, it prefetches the next page.
 */
export default {
  fetch(_request: Request, env: Env): Response {
    const body = new ReadableStream<Uint8Array>(listSource(env.ORDERS), { highWaterMark: 0 });
    return new Response(body, { headers: { "Content-Type": "application/json" } });
  },
};

function listSource(database: D1Database): UnderlyingSource<Uint8Array> {
  const statement = database.prepare(PAGE_SQL);
  const read = (firstId: bigint) => statement.bind(String(firstId)).first<Page>();
  const encoder = new TextEncoder();
  let opening = "[";
  let upcoming = read(INT64_MIN);
  return {
    async pull(controller) {
      const page = await upcoming;
      const last = page?.count === PAGE_ORDERS ? BigInt(page.last ?? INT64_MAX) : INT64_MAX;
      if (last < INT64_MAX) upcoming = read(last + 1n);
      controller.enqueue(
        encoder.encode(`${opening}${page?.json ?? ""}${last < INT64_MAX ? "" : "]"}`),
      );
      if (last === INT64_MAX) controller.close();
      opening = ",";
    },
  };
}
