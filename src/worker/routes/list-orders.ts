import { type Context, Hono } from "hono";
import { createMiddleware } from "hono/factory";
import expansion from "../../../dist/wasm/expand-orders.wasm";
import type { AppEnv } from "../app-env.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { logEvent } from "../log.ts";
import { enforceLimits } from "../middleware/enforce-limits.ts";
import type { Snapshot } from "../orders/list-queries.ts";
import { type Expansion, OrderExpander } from "../orders/order-expander.ts";
import type { ListRequest, OrderLists } from "../orders/order-lists.ts";

// Only this file imports the WebAssembly module, because Node cannot import it and tests in Node
// import the Worker's other files.
export const expander = new OrderExpander(
  new WebAssembly.Instance(expansion).exports as unknown as Expansion,
);

interface ListEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    listRequest: ListRequest;
    /** `null` before the list is queried, and after the response is created. */
    snapshot: Promise<Snapshot> | null;
  };
}

/**
 * Routes `listOrders` (docs/api.md, Listing). This route applies `enforceLimits` itself, so that it
 * can query the list while the limiter decides. The drawback: the query is wasted if the limiter
 * refuses the request.
 */
export function listRoute(lists: OrderLists, limiter: Limiter) {
  /** Starts to query the list, unless the limiter is certain to refuse the request. */
  const readAhead = createMiddleware<ListEnv>(async function readAheadMiddleware(c, next) {
    const request = listRequest(c);
    const isRefusing = limiter.isRefusing(c.get("limitedKey"));
    const snapshot = isRefusing ? null : lists.read(request);
    snapshot?.catch(() => undefined); // If the request is admitted, the route throws this error.
    c.set("listRequest", request);
    c.set("snapshot", snapshot);
    await next();
  });

  return new Hono<ListEnv>().get("/", readAhead, enforceLimits(limiter), async (c) => {
    const request = c.get("listRequest");
    const read = await (c.get("snapshot") ?? lists.read(request));
    const snapshot = await lists.renew(read, request, c.get("lastCancellation"));
    if (lists.areNearest) c.set("servedBy", snapshot.servedBy);
    // While the list is sent, `c` stays in memory. Release the snapshot, so that segments already
    // sent can be garbage-collected.
    c.set("snapshot", null);
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

const ENTITY_TAG = /"(?<opaque>[\x21\x23-\x7e\x80-\xff]*)"/g;

/**
 * Returns the list versions in an `If-None-Match` header; `"*"` matches any version. The prefix
 * `W/` is ignored, because the comparison is weak (RFC 9110, section 13.1.2).
 */
function versionsIn(header: string | undefined): readonly string[] | "*" {
  if (header === undefined) return [];
  if (header.trim() === "*") return "*";
  return [...header.matchAll(ENTITY_TAG)].map((match) => match.groups?.["opaque"] ?? "");
}

function listRequest(c: Context<ListEnv>): ListRequest {
  const requestId = c.get("requestId");
  const keyId = c.get("apiKey").id;
  return {
    database: c.env.ORDERS,
    keyId,
    knownVersions: versionsIn(c.req.header("If-None-Match")),
    log: (event, error) => logEvent({ event, requestId, keyId, error }),
    waitUntil: (promise) => c.executionCtx.waitUntil(promise),
  };
}
