import { Hono } from "hono";
import type { AppEnv } from "../../../../src/worker/app-env.ts";
import type { OrderLists } from "../../../../src/worker/orders/order-lists.ts";
import { listRoute } from "../../../../src/worker/routes/list-orders.ts";

interface ListRequest {
  readonly keyId?: string;
  readonly requestId?: string;
  readonly method?: string;
  /** An entity tag without its quotes, or `*`. */
  readonly tag?: string | undefined;
  readonly admission?: Promise<{ readonly mayReadReplica?: boolean }>;
  readonly waitUntil?: (promise: Promise<unknown>) => void;
}

/** Requests the list by its route, with a key that is admitted. Throws the error of its answer. */
export async function requestList(
  lists: OrderLists,
  database: D1Database,
  request: ListRequest = {},
): Promise<Response> {
  const { keyId = "key", requestId = "1", method = "GET", tag, waitUntil = () => {} } = request;
  const admission = request.admission ?? Promise.resolve({ mayReadReplica: true });
  const app = new Hono<AppEnv>()
    .use(async (c, next) => {
      c.set("apiKey", { id: keyId } as never);
      c.set("requestId", requestId);
      const decided = admission.then((decision) => ({ decision: { ...decision, admitted: true } }));
      c.set("admission", decided as never);
      await next();
    })
    .route("/", listRoute(lists))
    .onError((error) => {
      throw error;
    });
  const headers = tag === undefined ? {} : { "If-None-Match": tag === "*" ? tag : `"${tag}"` };
  const context = { waitUntil, props: {} };
  return app.request("/", { method, headers }, { ORDERS: database }, context as never);
}
