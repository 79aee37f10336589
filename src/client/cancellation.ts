/**
 * The outcome of a cancellation.
 *
 * `cancelled`: this call cancelled the order.
 *
 * `cancelled_or_gone`: the response to an earlier attempt was lost, and the next attempt found no
 * order with this id. The earlier attempt or another client cancelled the order, or the order never
 * existed.
 */
export type Cancellation = "cancelled" | "cancelled_or_gone";

/**
 * The outcome for one order of a batch. With `not_found` and `already_shipped`, the batch changed
 * nothing.
 */
export interface CancelResult {
  readonly id: bigint;
  readonly outcome: Cancellation | "not_found" | "already_shipped";
}
