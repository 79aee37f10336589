export {
  type CallOptions,
  createClient,
  type ListOptions,
  type OrderList,
  type StoreOrdersClient,
} from "./client.ts";
export type { BatchOptions, BatchProgress } from "./cancel-orders.ts";
export type { Cancellation, CancelResult } from "./cancellation.ts";
export {
  type AnyStoreOrdersError,
  ApiError,
  type ApiErrorCode,
  BatchInterruptedError,
  BrokenListError,
  isStoreOrdersError,
  NetworkError,
  StoreOrdersError,
  TimeoutError,
  UnexpectedAnswerError,
} from "./errors.ts";
export type { ClientOptions, Retry } from "./options.ts";
export type { Order } from "./order.ts";
export type { OrderId } from "./order-id.ts";
