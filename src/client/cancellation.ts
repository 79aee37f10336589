/**
 * How a cancellation ended.
 *
 * `cancelled`: this call cancelled the order.
 *
 * `cancelled_or_gone`: the order is gone; whether through this call is unknown. The answer to an
 * earlier attempt was lost, and the repetition found no such order: that attempt cancelled it, or
 * it never existed, or somebody else had cancelled it.
 */
export type Cancellation = "cancelled" | "cancelled_or_gone";

/** How one order of a batch ended. `not_found` and `already_shipped` changed nothing. */
export interface CancelResult {
  readonly id: bigint;
  readonly outcome: Cancellation | "not_found" | "already_shipped";
}
