import { Hono } from "hono";
import type { AppEnv } from "../../../../src/worker/app-env.ts";
import type { OrderLists } from "../../../../src/worker/orders/order-lists.ts";
import { listRoute } from "../../../../src/worker/routes/list-orders.ts";

const REQUEST = {
  keyId: "key",
  requestId: "1",
  method: "GET",
  /** An entity tag without its quotes, or `*`. */
  tag: undefined as string | undefined,
  admission: Promise.resolve<{ mayReadReplica?: boolean }>({ mayReadReplica: true }),
  waitUntil: (_promise: Promise<unknown>): void => {},
};

/** Requests the list by its route, with a key that is admitted. Throws the error of its answer. */
export async function requestList(
  lists: OrderLists,
  database: D1Database,
  request: Partial<typeof REQUEST> = {},
): Promise<Response> {
  const { keyId, requestId, method, tag, admission, waitUntil } = { ...REQUEST, ...request };
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
