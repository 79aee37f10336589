import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import type { Config } from "../config.ts";
import { ApiError } from "../errors.ts";
import { logEvent } from "../log.ts";
import { methodNotAllowed } from "../method-not-allowed.ts";
import { cancelOrder } from "./cancel-order.ts";
import { versionsIn } from "./entity-tag.ts";
import { orderIdSchema } from "./order.ts";
import { OrderLists } from "./order-lists.ts";
import { OrderPages } from "./order-pages.ts";

const JSON_TYPE = { "Content-Type": "application/json" };

/** `listOrders` and `cancelOrder` (specification, section Endpoints). */
export function orderRoutes({ databaseTimeoutMs }: Config) {
  const lists = new OrderLists();
  return new Hono<AppEnv>()
    .get("/", async (c) => {
      const pages = new OrderPages(c.env.DB, databaseTimeoutMs);
      const condition = versionsIn(c.req.header("If-None-Match"));
      if (c.req.raw.method === "HEAD" || condition === "*") {
        const version = await pages.version();
        if (condition === "*" || condition.includes(version)) {
          return c.body(null, 304, listHeaders(version));
        }
        return c.body(null, 200, { ...listHeaders(version), ...JSON_TYPE });
      }
      const { requestId } = c.var;
      const { version, body } = await lists.read(pages, {
        knownVersions: condition,
        onBroken: (error) => logEvent({ event: "order_list_broken", requestId, error }),
        waitUntil: (promise) => c.executionCtx.waitUntil(promise),
      });
      if (body === null) return c.body(null, 304, listHeaders(version));
      return c.body(body, 200, { ...listHeaders(version), ...JSON_TYPE });
    })
    .all("/", methodNotAllowed("GET, HEAD"))
    .delete("/:orderId", async (c) => {
      const text = c.req.param("orderId");
      const id = orderIdSchema.safeParse(text);
      if (!id.success) {
        throw new ApiError(
          "order_not_found",
          `No order has the id ${JSON.stringify(text)}: an orderId is an int64 in decimal, such as 42.`,
        );
      }
      const result = await cancelOrder(c.env.DB, id.data, databaseTimeoutMs);
      switch (result) {
        case "cancelled":
          return c.body(null, 204);
        case "already_shipped":
          throw new ApiError(
            "order_already_shipped",
            `Order ${id.data} has already shipped, so it can no longer be cancelled.`,
          );
        case "not_found":
          throw new ApiError(
            "order_not_found",
            `No order has the id ${id.data}. It may have been cancelled before.`,
          );
      }
    })
    .all("/:orderId", methodNotAllowed("DELETE"));
}

/** A caller may keep the list, but asks each time whether its version still stands. */
function listHeaders(version: string): Record<string, string> {
  return { ETag: `"${version}"`, "Cache-Control": "private, no-cache" };
}
