import { type Context } from "hono";
import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import type { Config } from "../config.ts";
import { logEvent } from "../log.ts";
import { versionsIn } from "./entity-tag.ts";
import { type OrderList, OrderLists } from "./order-lists.ts";
import { OrderPages } from "./order-pages.ts";

/**
 * Begins to read the list of orders while the limiter still decides, so that the answer waits for
 * the slower of the two and not for both. Nothing of it leaves unless the request is admitted, and
 * nothing is read for a request that is sure to be refused.
 */
export function readOrderListAhead({ databaseTimeoutMs }: Config) {
  const lists = new OrderLists(databaseTimeoutMs);
  return createMiddleware<AppEnv>(async function readOrderListAheadMiddleware(c, next) {
    let reading: Promise<OrderList> | null = null;
    const read = () =>
      (reading ??= lists.read(new OrderPages(c.env.DB, databaseTimeoutMs), listRequest(c)));
    c.set("orderList", { read });
    if (c.get("limiter").isRefusing(c.get("subject"))) return next();
    const ahead = read();
    ahead.catch(() => undefined); // Whoever answers with the list meets the error.
    await next();
    if (c.res.status >= 400) c.executionCtx.waitUntil(discard(ahead));
  });
}

function listRequest(c: Context<AppEnv>) {
  const requestId = c.get("requestId");
  const apiKey = c.get("apiKey");
  return {
    knownVersions: versionsIn(c.req.header("If-None-Match")),
    isHead: c.req.raw.method === "HEAD",
    onBroken: (error: unknown) =>
      logEvent({ event: "order_list_broken", requestId, keyId: apiKey.id, error }),
    waitUntil: (promise: Promise<unknown>) => c.executionCtx.waitUntil(promise),
  };
}

async function discard(reading: Promise<OrderList>): Promise<void> {
  const list = await reading.catch(() => null);
  if (list?.body instanceof ReadableStream) await list.body.cancel();
}
