/**
 * The outcome of a cancellation.
 *
 * `cancelled`: this call cancelled the order.
 *
 * `cancelled_or_gone`: the order is gone, possibly through this call. The answer to an earlier
 * attempt was lost, and the next attempt found no order. The order was cancelled by that attempt or
 * by somebody else, or it never existed.
 */
export type Cancellation = "cancelled" | "cancelled_or_gone";

/** The outcome for one order of a batch. `not_found` and `already_shipped` changed nothing. */
export interface CancelResult {
  readonly id: bigint;
  readonly outcome: Cancellation | "not_found" | "already_shipped";
}
