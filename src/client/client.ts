import { type BatchOptions, cancelOrder, cancelOrders } from "./cancel-orders.ts";
import {
  CALL_OPTIONS,
  type CallOptions,
  checkAttempts,
  checkNumber,
  checkOptions,
  checkTypes,
  type ClientOptions,
  requestHeaders,
} from "./options.ts";
import { NotModifiedError } from "./errors.ts";
import {
  type Cancellation,
  type CancelResult,
  type Order,
  type OrderId,
  toOrderId,
} from "./order.ts";
import { Gate } from "./pacer.ts";
import { getQuota, type KeyQuota } from "./quota.ts";
import type { Limits } from "./rate-limit-headers.ts";
import { readOrders } from "./read-orders.ts";
import { withRetries } from "./retry.ts";
import { type Call, ORDERS, send } from "./send.ts";

export interface ListOptions extends CallOptions {
  /**
   * If true, the loop receives no order until the complete list is in memory: about 250 bytes per
   * order. If the list is incomplete, the client repeats the request. Default false.
   */
  readonly oneMoment?: boolean | undefined;
  /**
   * The `etag` of an earlier list. If the list is unchanged, the loop or `all` throws a
   * NotModifiedError, so that an unchanged list is never mistaken for an empty one.
   */
  readonly ifNoneMatch?: string | null | undefined;
}

/** The list of all orders. Each `for await` loop over the list sends its own request. */
export interface OrderList extends AsyncIterable<Order> {
  [Symbol.asyncIterator](): AsyncGenerator<Order, void, undefined>;
  /** Reads the complete list into memory. If the list is incomplete, the client retries. */
  all(): Promise<Order[]>;
  /**
   * The entity tag of the last list that was received completely, or `ifNoneMatch` if the list was
   * unchanged since; `null` before the first of these.
   */
  readonly etag: string | null;
}

const LIST_OPTIONS = { ...CALL_OPTIONS, oneMoment: "boolean", ifNoneMatch: "string or object" };
const BATCH_OPTIONS = { ...CALL_OPTIONS, concurrency: "number", onProgress: "function" };

export interface StoreOrdersClient {
  /**
   * Lists all orders that were placed and not cancelled, in ascending `id`, one by one as they
   * arrive. A million orders need no more memory than ten. Leaving the loop cancels the request.
   *
   * A complete list is a consistent snapshot of the store. If the connection is lost, or a large
   * import replaces the orders, the loop throws a BrokenListError. Request the list again, or set
   * `oneMoment`, which does that for you.
   *
   * @throws {TypeError | RangeError} before any request, if an option is invalid; the message names
   *   the option.
   */
  listOrders(options?: ListOptions): OrderList;

  /**
   * Cancels an order that has not shipped. If the service sends a 5xx or no response, the order may
   * have been cancelled. Repeating the call is safe.
   *
   * @throws {ApiError} if the service refuses, such as with the code `order_already_shipped`.
   * @throws {RangeError} before any request, if the id is not an int64.
   */
  cancelOrder(id: OrderId, options?: CallOptions): Promise<Cancellation>;

  /**
   * Cancels many orders as fast as the plan of the key allows. Each request waits until the rate
   * limits admit it, so the service refuses no request unless another client uses the key. After a
   * refusal, the batch waits again. A batch can take days; aborting the signal ends the batch.
   *
   * @returns the outcome for each distinct id, in the sequence of `ids`.
   * @throws {BatchInterruptedError} with the settled and unsettled orders, if an error or the
   *   signal ended the batch early.
   * @throws {RangeError} before any request, if an id is not an int64.
   */
  cancelOrders(ids: Iterable<OrderId>, options?: BatchOptions): Promise<CancelResult[]>;

  /**
   * Looks at what the key may still send, and at its ban. Counts against no limit, never waits for
   * the limits, and succeeds even if they are used up. Waiting calls (`pacing`, `cancelOrders`) use
   * the response like that of any request. The service's answer can be up to a second old.
   *
   * @throws {ApiError} if the service refuses the key, or cannot reach its limiter.
   */
  quota(options?: CallOptions): Promise<KeyQuota>;

  /** The limits in the last response that had rate-limit headers; `null` before the first one. */
  readonly limits: Limits | null;
}

/**
 * Creates a client of the Store Orders Service. The client uses only web APIs. Create one client
 * for each API key, because the calls of a client share one count of the remaining requests.
 *
 * The client retries 429, 5xx and network errors, with full jitter and never before `Retry-After`.
 *
 * @throws {TypeError | RangeError} if an option is invalid; the message names the option.
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
    listOrders: (listOptions = {}) => {
      const { oneMoment, ifNoneMatch, ...callOptions } = checkTypes(listOptions, LIST_OPTIONS);
      return orderList(newCall(callOptions, ifNoneMatch), oneMoment);
    },
    cancelOrder: async (id, callOptions = {}) =>
      cancelOrder(newCall(checkTypes(callOptions, CALL_OPTIONS)), toOrderId(id)),
    cancelOrders: async (ids, batchOptions = {}) => {
      const { concurrency = 6, onProgress } = checkTypes(batchOptions, BATCH_OPTIONS);
      const distinct = [...new Set(Array.from(ids, toOrderId))];
      checkNumber("concurrency", concurrency, 1, 1_000);
      return cancelOrders(newCall(batchOptions), distinct, concurrency, onProgress);
    },
    quota: async (callOptions = {}) =>
      getQuota({ ...newCall(checkTypes(callOptions, CALL_OPTIONS)), isPaced: false }),
    get limits() {
      return gate.limits;
    },
  };
}

function orderList(call: Call, oneMoment = false): OrderList {
  let etag: string | null = null;
  const open = async () => {
    try {
      return await send(call, "GET", ORDERS, 200);
    } catch (error) {
      if (error instanceof NotModifiedError) etag = call.headers.get("If-None-Match");
      throw error;
    }
  };
  const all = () =>
    withRetries(call, async () => {
      const orders: Order[] = [];
      const answer = await open();
      for await (const order of readOrders(answer, call.signal)) orders.push(order);
      etag = answer.headers.get("ETag");
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
      etag = answer.headers.get("ETag");
    },
    all,
    get etag() {
      return etag;
    },
  };
}
