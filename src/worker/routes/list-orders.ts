import { type Context, Hono } from "hono";
import { createMiddleware } from "hono/factory";
import expansion from "../../../dist/wasm/expand-orders.wasm";
import type { AppEnv } from "../app-env.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { logEvent } from "../log.ts";
import { enforceLimits } from "../middleware/enforce-limits.ts";
import { versionsIn } from "./if-none-match.ts";
import { type Expansion, OrderExpander } from "../orders/order-expander.ts";
import { type ListRequest, OrderLists } from "../orders/order-lists.ts";
import type { Snapshot } from "../orders/segment-query.ts";

// Imported here alone, because Node cannot import it.
const expander = new OrderExpander(
  new WebAssembly.Instance(expansion).exports as unknown as Expansion,
);

interface ListEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    listRequest: ListRequest;
    /** `null` if the reading has not begun. */
    snapshot: Promise<Snapshot> | null;
  };
}

/** `listOrders`. Enforces the limits itself, because it reads while the limiter decides. */
export function listRoute(queries: DatabaseQueries) {
  const lists = new OrderLists(queries, expander);

  /**
   * Begins to read while the limiter decides, so that the answer waits for the slower of the two and
   * not for both. Reads nothing for a request that is sure to be refused.
   */
  const readAhead = createMiddleware<ListEnv>(async function readAheadMiddleware(c, next) {
    const request = listRequest(c);
    const isRefusing = c.get("limiter").isRefusing(c.get("limitedKey"));
    const snapshot = isRefusing ? null : lists.read(request);
    snapshot?.catch(() => undefined); // Thrown again when it is awaited, if the request is admitted.
    c.set("listRequest", request);
    c.set("snapshot", snapshot);
    await next();
  });

  return new Hono<ListEnv>().get("/", readAhead, enforceLimits, async (c) => {
    const request = c.get("listRequest");
    const snapshot = await (c.get("snapshot") ?? lists.read(request));
    // A list under way keeps `c`, which must not keep segments that are already sent.
    c.set("snapshot", null);
    const { version, isKnown, body } = lists.answer(snapshot, request);
    const headers = { ETag: `"${version}"`, "Cache-Control": "private, no-cache" };
    if (isKnown) return new Response(null, { status: 304, headers });
    return new Response(body, { headers: { ...headers, "Content-Type": "application/json" } });
  });
}

function listRequest(c: Context<ListEnv>): ListRequest {
  const requestId = c.get("requestId");
  const keyId = c.get("apiKey").id;
  return {
    database: c.env.ORDERS,
    knownVersions: versionsIn(c.req.header("If-None-Match")),
    isHead: c.req.raw.method === "HEAD",
    log: (event, error) => logEvent({ event, requestId, keyId, error }),
    waitUntil: (promise) => c.executionCtx.waitUntil(promise),
  };
}
