import { type Context, Hono } from "hono";
import expansion from "../../../dist/wasm/expand-orders.wasm";
import type { AppEnv } from "../app-env.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { logEvent } from "../log.ts";
import { limitRequest } from "../middleware/enforce-limits.ts";
import { type Expansion, OrderExpander } from "../orders/order-expander.ts";
import type { ListRequest, OrderLists } from "../orders/order-lists.ts";
import { preconditionFailed, Preconditions } from "./preconditions.ts";

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
    const preconditions = new Preconditions((name) => c.req.header(name));
    const request = listRequest(c, preconditions);
    // Do not read ahead if the limiter is certain to refuse the request.
    const readAhead = limiter.isRefusing(c.get("limitedKey")) ? null : lists.read(request);
    readAhead?.catch(() => undefined); // If the request is admitted, this error is thrown below.
    const refusal = await limitRequest(c, limiter);
    if (refusal !== null) return refusal;
    const read = await (readAhead ?? lists.read(request));
    const snapshot = await lists.renew(read, request, c.get("lastCancellation"));
    if (lists.areNearest) c.set("servedBy", snapshot.servedBy);
    if (!preconditions.allowsList(snapshot.version)) throw preconditionFailed();
    const { version, body } = lists.answer(snapshot, request);
    const headers = { ETag: `"${version}"`, "Cache-Control": "private, no-cache" };
    if (body === null) return new Response(null, { status: 304, headers });
    const isHead = c.req.raw.method === "HEAD";
    if (isHead && body instanceof ReadableStream) await body.cancel();
    return new Response(isHead ? null : body, {
      headers: { ...headers, "Content-Type": "application/json" },
    });
  });
}

function listRequest(c: Context<AppEnv>, { knownVersions }: Preconditions): ListRequest {
  const requestId = c.get("requestId");
  const keyId = c.get("apiKey").id;
  return {
    database: c.env.ORDERS,
    keyId,
    knownVersions,
    log: (event, error) => logEvent({ event, requestId, keyId, error }),
    waitUntil: (promise) => c.executionCtx.waitUntil(promise),
  };
}
