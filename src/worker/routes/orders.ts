import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { ApiError, quote } from "../errors.ts";
import { methodNotAllowed } from "./method-not-allowed.ts";
import { cancelOrder } from "../orders/cancel-order.ts";
import { parseInt64 } from "../orders/int64.ts";

/** `cancelOrder`, and the methods that the paths of orders do not have. */
export function orderRoutes(queries: DatabaseQueries) {
  return new Hono<AppEnv>()
    .all("/", methodNotAllowed("GET, HEAD"))
    .delete("/:orderId", async (c) => {
      const text = c.req.param("orderId");
      const id = parseInt64(text);
      if (id === undefined) {
        throw new ApiError(
          "order_not_found",
          `No order has the id ${quote(text)}: an orderId is an int64 in decimal, such as 42.`,
        );
      }
      const result = await cancelOrder(c.env.ORDERS, id, queries);
      switch (result) {
        case "cancelled":
          return c.body(null, 204);
        case "already_shipped":
          throw new ApiError(
            "order_already_shipped",
            `Order ${id} has already shipped, so it can no longer be cancelled.`,
          );
        case "not_found":
          throw new ApiError(
            "order_not_found",
            `No order has the id ${id}. It may have been cancelled before.`,
          );
      }
    })
    .all("/:orderId", methodNotAllowed("DELETE"));
}
