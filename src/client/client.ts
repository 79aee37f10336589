import { cancelOrder } from "./cancel-order.ts";
import { type BatchOptions, cancelOrders } from "./cancel-orders.ts";
import type { Cancellation, CancelResult } from "./cancellation.ts";
import { Gate } from "./gate.ts";
import { checkNumber, checkOptions, type ClientOptions } from "./options.ts";
import { type OrderId, toOrderId } from "./order-id.ts";
import type { Order } from "./order.ts";
import { readOrders } from "./read-orders.ts";
import { withRetries } from "./retry.ts";
import { type Call, send } from "./send.ts";

const DEFAULT_CONCURRENCY = 6;

export interface CallOptions {
  /** Ends the call at once; it then throws the signal's reason. */
  readonly signal?: AbortSignal;
}

export interface ListOptions extends CallOptions {
  /**
   * Receives the whole list before the loop gets its first order, and asks again if the list broke off.
   * The whole list is then in memory, about 250 bytes an order. Default false.
   */
  readonly oneMoment?: boolean;
}

/** All orders. Each iteration sends a request of its own. */
export interface OrderList extends AsyncIterable<Order> {
  [Symbol.asyncIterator](): AsyncGenerator<Order, void, undefined>;
  /** All of them at once, in memory; a list that breaks off is read again. */
  all(): Promise<Order[]>;
}

export interface StoreOrdersClient {
  /**
   * All orders that were placed and not cancelled, in ascending `id`, one by one as they arrive: a
   * million need no more memory than ten. To leave the loop ends the request.
   *
   * A whole list is the store as it was at one moment. A list that breaks off, because orders changed
   * while a long one was sent or because the connection ended, throws a BrokenListError: what came is
   * not the whole list. Read it again, or set `oneMoment` to have that done before the first order.
   *
   * @example
   * for await (const order of client.listOrders()) console.log(order.id, order.quantity);
   *
   * @example
   * const orders = await client.listOrders({ signal: AbortSignal.timeout(60_000) }).all();
   *
   * @example
   * for await (const order of client.listOrders({ oneMoment: true })) await copy(order);
   */
  listOrders(options?: ListOptions): OrderList;

  /**
   * Cancels an order that has not shipped.
   *
   * An error other than an ApiError leaves open whether the order is cancelled: to call it again is safe.
   *
   * @returns `cancelled`, or `cancelled_or_gone` where the order is gone but the answer to an
   *   earlier attempt was lost.
   * @throws {ApiError} `order_not_found`, `order_already_shipped` and others; {RangeError} for what
   *   is no int64, before anything is sent.
   *
   * @example
   * await client.cancelOrder(9223372036854775807n);
   */
  cancelOrder(id: OrderId, options?: CallOptions): Promise<Cancellation>;

  /**
   * Cancels many orders at the speed of the plan: it waits until the limits have room, so that it is
   * not refused as long as nobody else uses the key. That may take days; the signal ends it.
   *
   * @returns how each order ended, in the order of the ids, each id once.
   * @throws {BatchInterruptedError} where an error or the signal ended it early, with what is done and what
   *   is not; {RangeError} for what is no int64, before anything is sent.
   *
   * @example
   * const results = await client.cancelOrders([1001n, 1002n, 1003n], {
   *   onProgress: ({ done, total, etaSeconds }) => console.log(`${done}/${total}, ${etaSeconds} s`),
   * });
   */
  cancelOrders(ids: Iterable<OrderId>, options?: BatchOptions): Promise<CancelResult[]>;
}

/**
 * A client of the Store Orders Service, for browsers, Node 20 and later, Deno, Bun and Workers. Make
 * one per key, so that its calls know of each other's share of the limits.
 *
 * It repeats what failed in a way that passes (429, 5xx, the network), with full jitter and never
 * before `Retry-After`.
 *
 * @throws {TypeError | RangeError} that names the option which is wrong.
 *
 * @example
 * import { createClient } from "store-orders/client";
 *
 * const client = createClient({ baseUrl: "http://localhost:8787", apiKey: "sord_…" });
 * for await (const order of client.listOrders()) console.log(order);
 */
export function createClient(options: ClientOptions): StoreOrdersClient {
  const settings = checkOptions(options);
  const gate = new Gate();
  const newCall = (signal: AbortSignal | undefined): Call => {
    return { settings, gate, isPaced: settings.pacing, signal };
  };
  return {
    listOrders: ({ signal, oneMoment = false } = {}) => orderList(newCall(signal), oneMoment),
    cancelOrder: async (id, { signal } = {}) => cancelOrder(newCall(signal), toOrderId(id)),
    cancelOrders: async (ids, { signal, concurrency, onProgress = () => undefined } = {}) => {
      const distinct = [...new Set(Array.from(ids, toOrderId))];
      const width = checkNumber("concurrency", concurrency ?? DEFAULT_CONCURRENCY, 1, 1_000);
      return cancelOrders(newCall(signal), distinct, width, onProgress);
    },
  };
}

function orderList(call: Call, oneMoment: boolean): OrderList {
  const open = () => send(call, "GET", "", 200);
  const all = () =>
    withRetries(call, async () => {
      const orders: Order[] = [];
      for await (const order of readOrders(await open(), call.signal)) orders.push(order);
      return orders;
    });
  return {
    async *[Symbol.asyncIterator]() {
      if (oneMoment) yield* await all();
      else yield* readOrders(await withRetries(call, open), call.signal);
    },
    all,
  };
}
