import type { CancelResult } from "./cancellation.ts";

/** Every `code` of the service's Error body. */
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

/** What is known of the answer behind an error. */
export interface AnswerDetails {
  /** The HTTP status; `null` where there was no answer. */
  readonly status: number | null;
  /** Name it when you report a problem. */
  readonly requestId: string | null;
  /** How long to wait before the next request, in seconds; `null` where the service did not say. */
  readonly retryAfterSeconds: number | null;
}

const NO_ANSWER: AnswerDetails = { status: null, requestId: null, retryAfterSeconds: null };

/** What every error of this client has. `isStoreOrdersError` narrows to one of them, by `code`. */
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

/** The service refused the request; `message` says why and what to do next. */
export class ApiError extends StoreOrdersError {
  override readonly name = "ApiError";
  readonly code: ApiErrorCode;

  constructor(code: ApiErrorCode, message: string, details: AnswerDetails) {
    super(message, details);
    this.code = code;
  }
}

/** The answer is not the service's: a proxy's page, or a wrong `baseUrl`. */
export class UnexpectedAnswerError extends StoreOrdersError {
  override readonly name = "UnexpectedAnswerError";
  readonly code = "unexpected_answer";
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
 * The list broke off or is malformed: what came of it is not the whole list. The service breaks a
 * long list off where orders change while it is sent. Read it again, or set `oneMoment`.
 */
export class BrokenListError extends StoreOrdersError {
  override readonly name = "BrokenListError";
  readonly code = "broken_list";
  /** How many orders came before. */
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

/** A batch ended before its last order: by an error that would meet the others too, or an abort. */
export class BatchInterruptedError extends StoreOrdersError {
  override readonly name = "BatchInterruptedError";
  readonly code = "batch_interrupted";
  /** What is known of the orders that were settled. */
  readonly results: readonly CancelResult[];
  /** The ids that were not: some may be cancelled by now. Pass them on to a new batch. */
  readonly unsettledIds: readonly bigint[];

  /** @param cause the error that ended it, or the reason of the abort. */
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
  | NetworkError
  | TimeoutError
  | BrokenListError
  | BatchInterruptedError;

/**
 * Whether this client threw it.
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
