import { DurableObject } from "cloudflare:workers";

interface Env {
  readonly ORDERS: D1Database;
  readonly RATE_LIMITER: DurableObjectNamespace<RateLimiter>;
}

/** A SQL expression for the JSON of an order, with the same bytes as the service's JSON. */
const ORDER_JSON_SQL = `'{"id":' || id
  || ifnull(',"petId":' || pet_id, '')
  || ifnull(',"quantity":' || quantity, '')
  || ifnull(',"shipDate":"' || ship_date || '"', '')
  || CASE complete WHEN 1 THEN ',"complete":true' WHEN 0 THEN ',"complete":false' ELSE '' END
  || '}'`;

const LIST_SQL = `SELECT '[' || group_concat(json, ',') || ']' AS json
  FROM (SELECT ${ORDER_JSON_SQL} AS json FROM orders ORDER BY id)`;

/** A Worker that returns the list from one D1 statement, while a Durable Object writes a row. */
export default {
  async fetch(_request: Request, env: Env): Promise<Response> {
    const [, row] = await Promise.all([
      env.RATE_LIMITER.getByName("one").count(),
      env.ORDERS.prepare(LIST_SQL).first<{ json: string }>(),
    ]);
    return new Response(row?.json ?? "[]", { headers: { "Content-Type": "application/json" } });
  },
};

export class RateLimiter extends DurableObject {
  #count = 0;

  count(): number {
    this.#count += 1;
    this.ctx.storage.kv.put("count", this.#count);
    return this.#count;
  }
}
