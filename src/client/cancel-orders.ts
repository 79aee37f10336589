import { cancelOrder } from "./cancel-order.ts";
import type { CancelResult } from "./cancellation.ts";
import { BatchInterruptedError, isStoreOrdersError } from "./errors.ts";
import { forEachAtOnce } from "./for-each.ts";
import type { CallOptions } from "./options.ts";
import type { Pacer } from "./pacer.ts";
import type { Call } from "./send.ts";

/** The progress of a batch. */
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
  readonly concurrency?: number;
  /** Called after the outcome of each order is known. */
  readonly onProgress?: (progress: BatchProgress) => void;
}

/**
 * Cancels many orders as fast as the plan of the key allows.
 *
 * @param ids the ids of the orders, without duplicates.
 * @throws {BatchInterruptedError} if an error or an abort of the call's signal ends the batch
 *   early.
 */
export async function cancelOrders(
  call: Call,
  ids: readonly bigint[],
  concurrency: number,
  onProgress: (progress: BatchProgress) => void,
): Promise<CancelResult[]> {
  const results = new Map<bigint, CancelResult>();
  const eta = new Eta(call, Math.min(concurrency, ids.length));
  const failure = await forEachAtOnce(ids, concurrency, call.signal, async (id, signal) => {
    const latest = await settle({ ...call, isPaced: true, signal }, id);
    results.set(id, latest);
    const done = results.size;
    const etaSeconds = eta.seconds(done, ids.length - done);
    onProgress({ done, total: ids.length, etaSeconds, latest });
  });
  const settled = ids.flatMap((id) => results.get(id) ?? []);
  if (failure === null) return settled;
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

/** Estimates the time that the rest of a batch takes. */
class Eta {
  readonly #pacer: Pacer;
  readonly #width: number;
  readonly #startMs: number;

  /** @param width the number of the batch's requests that run at the same time. */
  constructor({ gate }: Call, width: number) {
    this.#pacer = gate.pacer;
    this.#width = width;
    this.#startMs = this.#workedMs();
  }

  seconds(done: number, left: number): number {
    if (left === 0) return 0;
    // Counts the other `width - 1` requests in flight as done. When the first request ends, the
    // others have run equally long: `done` alone would make the estimate `width` times too long.
    const orderMs = (this.#workedMs() - this.#startMs) / (done + this.#width - 1);
    const { waitMs, lastRequests } = this.#pacer.forecast(left, performance.now());
    return Math.ceil((waitMs + lastRequests * orderMs) / 1_000);
  }

  /** A clock in milliseconds that stops while the rate limits admit no request. */
  #workedMs(): number {
    const nowMs = performance.now();
    return nowMs - this.#pacer.pausedMs(nowMs);
  }
}
