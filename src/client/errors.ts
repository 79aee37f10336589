import type { CancelResult } from "./cancellation.ts";

/** Every `code` of an Error body (docs/api.md, Errors). */
export const API_ERROR_CODES = [
  "unauthorized",
  "order_not_found",
  "not_found",
  "method_not_allowed",
  "order_already_shipped",
  "rate_limit_exceeded",
  "api_key_banned",
  "internal_error",
  "service_unavailable",
] as const;

export type ApiErrorCode = (typeof API_ERROR_CODES)[number];

/** Details of the answer that caused an error. */
export interface AnswerDetails {
  /** The HTTP status; `null` if no answer arrived. */
  readonly status: number | null;
  /** The id to name when you report a problem. */
  readonly requestId: string | null;
  /** Seconds to wait before the next request; `null` if the service did not say. */
  readonly retryAfterSeconds: number | null;
}

const NO_ANSWER: AnswerDetails = { status: null, requestId: null, retryAfterSeconds: null };

/** The base of all errors of this client. `isStoreOrdersError` narrows an error to one of them. */
export abstract class StoreOrdersError extends Error implements AnswerDetails {
  abstract readonly code: string;
  readonly status: number | null;
  readonly requestId: string | null;
  readonly retryAfterSeconds: number | null;

  constructor(message: string, details: AnswerDetails = NO_ANSWER, options?: ErrorOptions) {
    super(message, options);
    this.status = details.status;
    this.requestId = details.requestId;
    this.retryAfterSeconds = details.retryAfterSeconds;
  }
}

/** The service refused the request; `message` says why and what to do. */
export class ApiError extends StoreOrdersError {
  override readonly name = "ApiError";
  readonly code: ApiErrorCode;

  constructor(code: ApiErrorCode, message: string, details: AnswerDetails) {
    super(message, details);
    this.code = code;
  }
}

/** The answer is not from the service: a proxy answered, or `baseUrl` is wrong. */
export class UnexpectedAnswerError extends StoreOrdersError {
  override readonly name = "UnexpectedAnswerError";
  readonly code = "unexpected_answer";
}

/** The list is still the one that `ifNoneMatch` names. */
export class NotModifiedError extends StoreOrdersError {
  override readonly name = "NotModifiedError";
  readonly code = "not_modified";
}

/** The service could not be reached, or the connection ended before the answer. */
export class NetworkError extends StoreOrdersError {
  override readonly name = "NetworkError";
  readonly code = "network_error";
}

/** No answer within `timeoutMs`. */
export class TimeoutError extends StoreOrdersError {
  override readonly name = "TimeoutError";
  readonly code = "timeout";
}

/**
 * The list broke off or is malformed, so the received orders are not the complete list. The service
 * breaks off a long list if orders change while it is sent. Read the list again, or set
 * `oneMoment`.
 */
export class BrokenListError extends StoreOrdersError {
  override readonly name = "BrokenListError";
  readonly code = "broken_list";
  /** The number of orders received before the list broke off. */
  readonly receivedCount: number;

  constructor(
    message: string,
    receivedCount: number,
    details: AnswerDetails,
    options?: ErrorOptions,
  ) {
    super(message, details, options);
    this.receivedCount = receivedCount;
  }
}

/** An abort, or an error that concerns all orders, ended a batch before its last order. */
export class BatchInterruptedError extends StoreOrdersError {
  override readonly name = "BatchInterruptedError";
  readonly code = "batch_interrupted";
  /** The outcomes of the settled orders. */
  readonly results: readonly CancelResult[];
  /** The other ids. Some of these orders may be cancelled. Pass the ids to a new batch. */
  readonly unsettledIds: readonly bigint[];

  /** @param cause the error that ended the batch, or the reason of the abort. */
  constructor(results: readonly CancelResult[], unsettledIds: readonly bigint[], cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const count = unsettledIds.length;
    const details = cause instanceof StoreOrdersError ? cause : NO_ANSWER;
    super(`The batch ended with ${count} orders unsettled: ${why}`, details, { cause });
    this.results = results;
    this.unsettledIds = unsettledIds;
  }
}

/** Every error of this client. Tell them apart by `code`. */
export type AnyStoreOrdersError =
  | ApiError
  | UnexpectedAnswerError
  | NotModifiedError
  | NetworkError
  | TimeoutError
  | BrokenListError
  | BatchInterruptedError;

/**
 * Returns whether this client threw the error.
 *
 * @example
 * try {
 *   await client.cancelOrder(1001n);
 * } catch (error) {
 *   if (!isStoreOrdersError(error)) throw error;
 *   if (error.code === "order_already_shipped") console.log("too late");
 *   else console.error(error.code, error.message, error.requestId);
 * }
 */
export function isStoreOrdersError(error: unknown): error is AnyStoreOrdersError {
  return error instanceof StoreOrdersError;
}
