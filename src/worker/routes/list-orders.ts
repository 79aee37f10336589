import { Hono } from "hono";
import expansion from "../../../dist/wasm/expand-orders.wasm";
import type { AppEnv } from "../app-env.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { logEvent } from "../log.ts";
import { limitRequest } from "../middleware/enforce-limits.ts";
import type { OrderLists } from "../orders/order-lists.ts";
import { type Expansion, OrderExpander } from "../orders/list-stream.ts";
import { preconditionsOf } from "../preconditions.ts";

// Only this file imports the WebAssembly module, because Node cannot import it and tests in Node
// import the Worker's other files.
export const expander = new OrderExpander(
  new WebAssembly.Instance(expansion).exports as unknown as Expansion,
);

/**
 * Routes `listOrders` (docs/api.md, Listing). This route enforces the limits itself, so that it can
 * query the list while the limiter decides. The drawback: the query is wasted if the limiter
 * refuses the request.
 */
export function listRoute(lists: OrderLists, limiter: Limiter) {
  return new Hono<AppEnv>().get("/", async (c) => {
    const requestId = c.get("requestId");
    const keyId = c.get("apiKey").id;
    // Do not read early if the limiter is certain to refuse the request.
    const readsEarly = !limiter.isRefusing(c.get("limitedKey"));
    const limited = limitRequest(c, limiter);
    const list = await lists.answer({
      database: c.env.ORDERS,
      keyId,
      preconditions: preconditionsOf(c.req.raw.headers),
      isHead: c.req.raw.method === "HEAD",
      readsEarly,
      admission: limited.then((refusal) => (refusal === null ? c.get("lastCancellation") : null)),
      log: (event, error) => logEvent({ event, requestId, keyId, error }),
      waitUntil: (promise) => c.executionCtx.waitUntil(promise),
    });
    const refusal = await limited;
    if (refusal !== null) return refusal;
    if (list === null) throw new Error("An admitted request was not answered.");
    if (list.servedBy !== null) c.set("servedBy", list.servedBy);
    const headers = { ETag: `"${list.version}"`, "Cache-Control": "private, no-cache" };
    if (list.isKnown) return new Response(null, { status: 304, headers });
    return new Response(list.body, { headers: { ...headers, "Content-Type": "application/json" } });
  });
}
