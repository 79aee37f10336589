/**
 * The outcome of a cancellation.
 *
 * `cancelled`: this call cancelled the order.
 *
 * `cancelled_or_gone`: an earlier attempt got no response or a 5xx, and a later attempt found no
 * order with this id. The earlier attempt or another client cancelled the order, or the order never
 * existed.
 */
export type Cancellation = "cancelled" | "cancelled_or_gone";

/**
 * The outcome for one order of a batch. `not_found` and `already_shipped` mean that the batch did
 * not change this order.
 */
export interface CancelResult {
  readonly id: bigint;
  readonly outcome: Cancellation | "not_found" | "already_shipped";
}
