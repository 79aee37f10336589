import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import type { DatabaseQueries } from "../db/availability.ts";
import { parseInt64 } from "../../rules/int64.ts";
import { ApiError, methodNotAllowed } from "../errors.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { cancelOrder } from "../orders/cancellation.ts";
import type { OrderLists } from "../orders/order-lists.ts";
import { allowsChange, preconditionsOf } from "../preconditions.ts";

/** Routes `cancelOrder` (docs/api.md, Cancelling). */
export function cancelRoute(queries: DatabaseQueries, lists: OrderLists, limiter: Limiter) {
  return new Hono<AppEnv>()
    .delete("/:orderId", async (c) => {
      const id = parseInt64(c.req.param("orderId"));
      if (id === undefined) {
        throw new ApiError(
          "order_not_found",
          "No order has this id: an orderId is an int64 in decimal, such as 42.",
        );
      }
      const { result, sequence } = await cancelOrder(c.env.ORDERS, id, queries, {
        keyId: c.get("apiKey").id,
        needsSequence: lists.areNearest,
        isAllowed: allowsChange(preconditionsOf(c.req.raw.headers)),
      });
      // Record a repeated cancellation too, because the first request may not have recorded it.
      if (sequence !== null && (result === "cancelled" || result === "not_found")) {
        lists.recordSeen(c.get("apiKey").id, sequence);
        await limiter.recordCancellation(c.get("limitedKey"), sequence, {
          objects: c.env.RATE_LIMITER,
          requestId: c.get("requestId"),
          waitUntil: (promise) => c.executionCtx.waitUntil(promise),
        });
      }
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
