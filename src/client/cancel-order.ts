import type { Cancellation } from "./cancellation.ts";
import { isStoreOrdersError } from "./errors.ts";
import { isAmbiguous, withRetries } from "./retry.ts";
import { type Call, send } from "./send.ts";

/**
 * Cancels one order and retries temporary failures. Returns `cancelled_or_gone` for a 404 after an
 * attempt with an unknown outcome, because that attempt may have cancelled the order.
 */
export async function cancelOrder(call: Call, id: bigint): Promise<Cancellation> {
  let mayBeCancelled = false;
  return withRetries(call, async () => {
    try {
      const answer = await send(call, "DELETE", `/${id}`, 204);
      answer.release();
      return "cancelled";
    } catch (error) {
      const isGone = isStoreOrdersError(error) && error.code === "order_not_found";
      if (isGone && mayBeCancelled) return "cancelled_or_gone";
      mayBeCancelled ||= isAmbiguous(error);
      throw error;
    }
  });
}
