import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import { ApiError, methodNotAllowed } from "../errors.ts";
import { logEvent } from "../log.ts";
import { ListError } from "../orders/list-error.ts";
import type { OrderLists } from "../orders/order-lists.ts";
import { allowsMatch, knownTags, preconditionsOf } from "../preconditions.ts";

/**
 * Routes `listOrders` (docs/api.md, Listing). Queries the list while the limiter decides. The
 * drawback: the query is wasted if the limiter refuses the request.
 */
export function listRoute(lists: OrderLists) {
  const routes = new Hono<AppEnv>().get("/", async (c) => {
    const preconditions = preconditionsOf(c.req.raw.headers);
    const knownVersions = knownTags(preconditions);
    const keyId = c.get("apiKey").id;
    const request = {
      database: c.env.ORDERS,
      keyId,
      knownVersions,
      admission: c.get("admission").then(({ decision }) => (decision?.admitted ? decision : null)),
      waitUntil: (promise: Promise<unknown>) => c.executionCtx.waitUntil(promise),
    };
    const log = (event: string, error?: unknown) =>
      logEvent({ event, requestId: c.get("requestId"), keyId, error });
    const snapshot = await lists.snapshot(request);
    // The middleware answers a refused request.
    if (snapshot === null) return c.body(null);
    const { version, servedBy } = snapshot;
    if (!allowsMatch(preconditions, version)) {
      throw new ApiError(
        "precondition_failed",
        "The list has another entity tag than If-Match requires. Repeat the request without If-Match.",
      );
    }
    if (lists.reads.isNearest) c.set("servedBy", servedBy);
    const headers = { ETag: `"${version}"`, "Cache-Control": "private, no-cache" };
    if (knownVersions === "*" || knownVersions.includes(version)) {
      return new Response(null, { status: 304, headers });
    }
    const options = {
      isHead: c.req.raw.method === "HEAD",
      onBroken: (error: unknown) =>
        log(error instanceof ListError ? error.event : "order_list_broken", error),
    };
    const body = await lists.body(snapshot, request, options).catch((error: unknown) => {
      if (!(error instanceof ListError)) throw error;
      log(error.event);
      throw unavailable(error);
    });
    return new Response(body, { headers: { ...headers, "Content-Type": "application/json" } });
  });
  return routes.all("/", methodNotAllowed("GET, HEAD"));
}

function unavailable({ event }: ListError): ApiError {
  const [message, retryAfter] =
    event === "order_list_too_long"
      ? [
          "The store has more orders than the service can list in one answer. Tell the operator of the service; repeating the request helps only once there are fewer orders.",
          "3600",
        ]
      : [
          "The service is sending too many long lists at the moment. Repeat the request after the time in Retry-After.",
          "5",
        ];
  return new ApiError("service_unavailable", message, { "Retry-After": retryAfter });
}
