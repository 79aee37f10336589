import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import { methodNotAllowed } from "../errors.ts";
import { logEvent } from "../log.ts";
import type { OrderLists } from "../orders/order-lists.ts";
import { preconditionsOf } from "../preconditions.ts";

/**
 * Routes `listOrders` (docs/api.md, Listing). Queries the list while the limiter decides. The
 * drawback: the query is wasted if the limiter refuses the request.
 */
export function listRoute(lists: OrderLists) {
  const routes = new Hono<AppEnv>().get("/", async (c) => {
    const requestId = c.get("requestId");
    const keyId = c.get("apiKey").id;
    const list = await lists.answer({
      database: c.env.ORDERS,
      keyId,
      preconditions: preconditionsOf(c.req.raw.headers),
      isHead: c.req.raw.method === "HEAD",
      admission: c.get("admission").then(({ decision }) => (decision?.admitted ? decision : null)),
      log: (event, error) => logEvent({ event, requestId, keyId, error }),
      waitUntil: (promise) => c.executionCtx.waitUntil(promise),
    });
    // The middleware answers a refused request.
    if (list === null) return c.body(null);
    if (list.servedBy !== null) c.set("servedBy", list.servedBy);
    const headers = { ETag: `"${list.version}"`, "Cache-Control": "private, no-cache" };
    if (list.isKnown) return new Response(null, { status: 304, headers });
    return new Response(list.body, { headers: { ...headers, "Content-Type": "application/json" } });
  });
  return routes.all("/", methodNotAllowed("GET, HEAD"));
}
