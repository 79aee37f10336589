import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { parseInt64 } from "../../rules/int64.ts";
import { ApiError, methodNotAllowed } from "../errors.ts";
import { cancelOrder } from "../orders/cancellation.ts";
import { allowsChange, preconditionsOf } from "../preconditions.ts";

/** Routes `cancelOrder` (docs/api.md, Cancelling). */
export function cancelRoute(queries: DatabaseQueries) {
  return new Hono<AppEnv>()
    .delete("/:orderId", async (c) => {
      const id = parseInt64(c.req.param("orderId"));
      if (id === undefined) {
        throw new ApiError(
          "order_not_found",
          "No order has this id: an orderId is an int64 in decimal, such as 42.",
        );
      }
      const result = await cancelOrder(c.env.ORDERS, id, queries, {
        keyId: c.get("apiKey").id,
        isAllowed: allowsChange(preconditionsOf(c.req.raw.headers)),
      });
      switch (result) {
        case "cancelled":
          return c.body(null, 204);
        case "already_shipped":
          throw new ApiError(
            "order_already_shipped",
            `Order ${id} has already shipped, so it can no longer be cancelled.`,
          );
        case "precondition_failed":
          throw new ApiError(
            "precondition_failed",
            `Order ${id} was not cancelled. An order has no entity tag: If-Match can only be *, and If-None-Match cannot be *.`,
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
