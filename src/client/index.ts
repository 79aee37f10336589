export {
  createClient,
  type ListOptions,
  type OrderList,
  type StoreOrdersClient,
} from "./client.ts";
export type { BatchOptions, BatchProgress } from "./cancel-orders.ts";
export {
  type AnyStoreOrdersError,
  ApiError,
  type ApiErrorCode,
  BatchInterruptedError,
  BrokenListError,
  isStoreOrdersError,
  NetworkError,
  NotModifiedError,
  StoreOrdersError,
  TimeoutError,
  UnexpectedAnswerError,
} from "./errors.ts";
export type { CallOptions, ClientOptions, ResponseInfo, Retry } from "./options.ts";
export type { Cancellation, CancelResult, Order, OrderId } from "./order.ts";
export type { KeyQuota, QuotaWindow } from "./quota.ts";
export type { Limits, WindowQuota } from "./rate-limit-headers.ts";
