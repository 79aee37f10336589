import { cancelOrder } from "./cancel-order.ts";
import { type BatchOptions, cancelOrders } from "./cancel-orders.ts";
import type { Cancellation, CancelResult } from "./cancellation.ts";
import { Gate } from "./gate.ts";
import {
  type CallOptions,
  checkAttempts,
  checkNumber,
  checkOptions,
  type ClientOptions,
} from "./options.ts";
import { type OrderId, toOrderId } from "./order-id.ts";
import type { Order } from "./order.ts";
import type { Limits } from "./rate-limit-headers.ts";
import { readOrders } from "./read-orders.ts";
import { requestHeaders } from "./request-headers.ts";
import { withRetries } from "./retry.ts";
import { type Call, send } from "./send.ts";

const DEFAULT_CONCURRENCY = 6;

export interface ListOptions extends CallOptions {
  /**
   * Receives the complete list before the first order, and requests the list again if it broke off.
   * The complete list is then in memory, at about 250 bytes an order. Default false.
   */
  readonly oneMoment?: boolean;
  /**
   * The `etag` of a list received before. If the list has not changed, the call throws a
   * NotModifiedError, so that an unchanged list is never taken for an empty one.
   */
  readonly ifNoneMatch?: string | null;
}

/** The list of all orders. Each iteration sends a request of its own. */
export interface OrderList extends AsyncIterable<Order> {
  [Symbol.asyncIterator](): AsyncGenerator<Order, void, undefined>;
  /** Reads the complete list into memory, and reads it again if it breaks off. */
  all(): Promise<Order[]>;
  /** The entity tag of the list that was last received to its end; `null` before. */
  readonly etag: string | null;
}

export interface StoreOrdersClient {
  /**
   * Lists all orders that were placed and not cancelled, in ascending `id`, one by one as they
   * arrive. A million orders need no more memory than ten. Leaving the loop ends the request.
   *
   * A complete list shows the store at one moment. A list can break off because orders changed
   * while it was sent, or because the connection ended. It then throws a BrokenListError. Read the
   * list again, or set `oneMoment`, which does so before the first order.
   *
   * @example
   * for await (const order of client.listOrders()) console.log(order.id, order.quantity);
   *
   * @example
   * const orders = await client.listOrders({ signal: AbortSignal.timeout(60_000) }).all();
   *
   * @example
   * for await (const order of client.listOrders({ oneMoment: true })) await copy(order);
   *
   * @throws {TypeError | RangeError} before any request, that names the wrong option.
   */
  listOrders(options?: ListOptions): OrderList;

  /**
   * Cancels an order that has not shipped.
   *
   * After an error other than an ApiError the order may be cancelled. Calling again is safe.
   *
   * @returns `cancelled`, or `cancelled_or_gone` if the order is gone but the answer to an earlier
   *   attempt was lost.
   * @throws {ApiError} such as `order_not_found` and `order_already_shipped`.
   * @throws {RangeError} before any request, if the id is not an int64.
   *
   * @example
   * await client.cancelOrder(9223372036854775807n);
   */
  cancelOrder(id: OrderId, options?: CallOptions): Promise<Cancellation>;

  /**
   * Cancels many orders at the speed of the plan. The batch waits until the limits have room, so
   * the service refuses none of its requests while nobody else uses the key. A batch can take days;
   * the signal ends it.
   *
   * @returns the outcome for each id, in the order of the ids, without duplicates.
   * @throws {BatchInterruptedError} with the settled and unsettled orders, if an error or the
   *   signal ended the batch early.
   * @throws {RangeError} before any request, if an id is not an int64.
   *
   * @example
   * const results = await client.cancelOrders([1001n, 1002n, 1003n], {
   *   onProgress: ({ done, total, etaSeconds }) => console.log(`${done}/${total}, ${etaSeconds} s`),
   * });
   */
  cancelOrders(ids: Iterable<OrderId>, options?: BatchOptions): Promise<CancelResult[]>;

  /** What the service's last answer said about the limits; `null` before the first answer. */
  readonly limits: Limits | null;
}

/**
 * Creates a client of the Store Orders Service, which needs web APIs only. Create one client for
 * each key: its calls share one count of the limits.
 *
 * The client retries 429, 5xx and network errors, with full jitter and never before `Retry-After`.
 *
 * @throws {TypeError | RangeError} that names the wrong option.
 *
 * @example
 * import { createClient } from "store-orders-client";
 *
 * const client = createClient({ baseUrl: "http://localhost:8787", apiKey: "sord_…" });
 * for await (const order of client.listOrders()) console.log(order);
 */
export function createClient(options: ClientOptions): StoreOrdersClient {
  const settings = checkOptions(options);
  const gate = new Gate();
  const newCall = (callOptions: CallOptions, ifNoneMatch: string | null = null): Call => ({
    settings: { ...settings, ...checkAttempts(callOptions, settings) },
    gate,
    isPaced: settings.pacing,
    signal: callOptions.signal,
    headers: requestHeaders(settings.apiKey, callOptions, ifNoneMatch),
  });
  return {
    listOrders: ({ oneMoment = false, ifNoneMatch, ...callOptions } = {}) =>
      orderList(newCall(callOptions, ifNoneMatch), oneMoment),
    cancelOrder: async (id, callOptions = {}) => cancelOrder(newCall(callOptions), toOrderId(id)),
    cancelOrders: async (ids, { concurrency, onProgress, ...callOptions } = {}) => {
      const distinct = [...new Set(Array.from(ids, toOrderId))];
      const width = checkNumber("concurrency", concurrency ?? DEFAULT_CONCURRENCY, 1, 1_000);
      return cancelOrders(newCall(callOptions), distinct, width, onProgress ?? (() => undefined));
    },
    get limits() {
      return gate.limits;
    },
  };
}

function orderList(call: Call, oneMoment: boolean): OrderList {
  let etag: string | null = null;
  const open = () => send(call, "GET", "", 200);
  const all = () =>
    withRetries(call, async () => {
      const orders: Order[] = [];
      const answer = await open();
      for await (const order of readOrders(answer, call.signal)) orders.push(order);
      etag = answer.etag;
      return orders;
    });
  return {
    async *[Symbol.asyncIterator]() {
      if (oneMoment) {
        for (const order of await all()) {
          yield order;
          call.signal?.throwIfAborted();
        }
        return;
      }
      const answer = await withRetries(call, open);
      yield* readOrders(answer, call.signal);
      etag = answer.etag;
    },
    all,
    get etag() {
      return etag;
    },
  };
}
