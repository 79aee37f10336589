import { follow } from "./abort.ts";
import { BatchInterruptedError, isStoreOrdersError } from "./errors.ts";
import type { CallOptions } from "./options.ts";
import type { Cancellation, CancelResult } from "./order.ts";
import { isAmbiguous, withRetries } from "./retry.ts";
import { type Call, ORDERS, send } from "./send.ts";

export interface BatchProgress {
  /** The number of orders whose outcome is known. */
  readonly done: number;
  readonly total: number;
  /** The estimated time left in seconds, from the rate limits and the speed so far. */
  readonly etaSeconds: number;
  /** The order whose outcome became known last. */
  readonly latest: CancelResult;
}

export interface BatchOptions extends CallOptions {
  /** The maximum number of requests that run at the same time. Default 6. */
  readonly concurrency?: number | undefined;
  readonly onProgress?: ((progress: BatchProgress) => void) | undefined;
}

/** See `StoreOrdersClient.cancelOrder`. */
export async function cancelOrder(call: Call, id: bigint): Promise<Cancellation> {
  let mayBeCancelled = false;
  return withRetries(call, async () => {
    try {
      (await send(call, "DELETE", `${ORDERS}/${id}`, 204)).abort();
      return "cancelled";
    } catch (error) {
      const isGone = isStoreOrdersError(error) && error.code === "order_not_found";
      if (isGone && mayBeCancelled) return "cancelled_or_gone";
      mayBeCancelled ||= isAmbiguous(error);
      throw error;
    }
  });
}

/** See `StoreOrdersClient.cancelOrders`. `ids` must not contain duplicates. */
export async function cancelOrders(
  call: Call,
  ids: readonly bigint[],
  concurrency: number,
  onProgress: BatchOptions["onProgress"],
): Promise<CancelResult[]> {
  const results = new Map<bigint, CancelResult>();
  const total = ids.length;
  const width = Math.min(concurrency, total);
  // The first error, or an abort of the call, aborts the requests in flight.
  const stop = new AbortController();
  const { signal } = stop;
  const unfollow = follow(call.signal, stop);
  let failure: { readonly error: unknown } | undefined;
  const queue = ids.values();
  const worker = async (): Promise<void> => {
    try {
      // The workers share one iterator, so that only one worker gets each id.
      for (const id of queue) {
        signal.throwIfAborted();
        const latest = await settle({ ...call, isPaced: true, signal }, id);
        results.set(id, latest);
        const done = results.size;
        onProgress?.({ done, total, etaSeconds: etaSeconds(call, total - done, width), latest });
      }
    } catch (error) {
      failure ??= { error };
      stop.abort(error);
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  unfollow();
  const settled = ids.flatMap((id) => results.get(id) ?? []);
  if (failure === undefined) return settled;
  const unsettledIds = ids.filter((id) => !results.has(id));
  throw new BatchInterruptedError(settled, unsettledIds, failure.error);
}

async function settle(call: Call, id: bigint): Promise<CancelResult> {
  try {
    return { id, outcome: await cancelOrder(call, id) };
  } catch (error) {
    const code = isStoreOrdersError(error) ? error.code : undefined;
    if (code === "order_not_found") return { id, outcome: "not_found" };
    if (code === "order_already_shipped") return { id, outcome: "already_shipped" };
    throw error;
  }
}

/** Estimates how many seconds the rest of a batch takes, with `width` requests at a time. */
function etaSeconds({ gate }: Call, left: number, width: number): number {
  if (left === 0) return 0;
  const { waitMs, lastRequests } = gate.pacer.forecast(left, performance.now());
  return Math.ceil((waitMs + (lastRequests * gate.responseMs) / width) / 1_000);
}
