import type { CancelResult } from "./order.ts";

/** Every `code` of an Error body (docs/api.md, Errors). Later versions of the service may add some. */
export type ApiErrorCode =
  | "unauthorized"
  | "https_required"
  | "order_not_found"
  | "not_found"
  | "method_not_allowed"
  | "order_already_shipped"
  | "precondition_failed"
  | "rate_limit_exceeded"
  | "api_key_banned"
  | "internal_error"
  | "service_unavailable";

/** Details of the response that caused an error. A detail that no response provided is `null`. */
export interface AnswerDetails {
  readonly status: number | null;
  /** The `X-Request-Id` of the response, to quote in a problem report. */
  readonly requestId: string | null;
  /** Seconds to wait before the next request, from `Retry-After`. */
  readonly retryAfterSeconds: number | null;
}

const NO_ANSWER: AnswerDetails = { status: null, requestId: null, retryAfterSeconds: null };

/** The base class of all errors of this client. `isStoreOrdersError` is the type guard for them. */
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

/** Thrown if the service refused the request; `message` says why and what to do. */
export class ApiError extends StoreOrdersError {
  override readonly name = "ApiError";
  /** A code of the service. `string & {}` stands for codes that this version does not know. */
  readonly code: ApiErrorCode | (string & {});

  constructor(code: string, message: string, details: AnswerDetails) {
    super(message, details);
    this.code = code;
  }
}

/** Thrown if the response is not from the service: a proxy sent it, or `baseUrl` is wrong. */
export class UnexpectedAnswerError extends StoreOrdersError {
  override readonly name = "UnexpectedAnswerError";
  readonly code = "unexpected_answer";
}

/** Thrown if the list has not changed since the response with the entity tag in `ifNoneMatch`. */
export class NotModifiedError extends StoreOrdersError {
  override readonly name = "NotModifiedError";
  readonly code = "not_modified";
}

/** Thrown if the service cannot be reached, or if the connection ends before the response. */
export class NetworkError extends StoreOrdersError {
  override readonly name = "NetworkError";
  readonly code = "network_error";
}

/** Thrown if no data arrives for `timeoutMs`. In a list, a BrokenListError wraps this error. */
export class TimeoutError extends StoreOrdersError {
  override readonly name = "TimeoutError";
  readonly code = "timeout";
}

/**
 * Thrown if the list was cut off or is malformed. Request a list that was cut off again; `all` and
 * `oneMoment` do that. A malformed list would arrive malformed again.
 */
export class BrokenListError extends StoreOrdersError {
  override readonly name = "BrokenListError";
  readonly code = "broken_list";
  readonly receivedCount: number;
  readonly isCutOff: boolean;

  constructor(receivedCount: number, isCutOff: boolean, details: AnswerDetails, cause: unknown) {
    const why = (cause instanceof Error ? cause.message : String(cause)).replace(/\.$/, "");
    const what = isCutOff ? "was cut off" : "is malformed";
    const count = `${receivedCount} ${receivedCount === 1 ? "order" : "orders"}`;
    const advice = isCutOff ? " Request the list again." : "";
    super(`The list ${what} after ${count}: ${why}.${advice}`, details, { cause });
    this.receivedCount = receivedCount;
    this.isCutOff = isCutOff;
  }
}

/** Thrown if an abort or error ended a batch early. Missing or shipped orders do not end it. */
export class BatchInterruptedError extends StoreOrdersError {
  override readonly name = "BatchInterruptedError";
  readonly code = "batch_interrupted";
  /** The known outcomes of the batch, one for each settled order. */
  readonly results: readonly CancelResult[];
  /** The ids without a known outcome. Some may be cancelled; pass all of them to a new batch. */
  readonly unsettledIds: readonly bigint[];

  constructor(results: readonly CancelResult[], unsettledIds: readonly bigint[], cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const count = unsettledIds.length;
    const details = cause instanceof StoreOrdersError ? cause : NO_ANSWER;
    super(`The batch ended with ${count} orders unsettled: ${why}`, details, { cause });
    this.results = results;
    this.unsettledIds = unsettledIds;
  }
}

/** Any error of this client. Its `code` says which. */
export type AnyStoreOrdersError =
  | ApiError
  | UnexpectedAnswerError
  | NotModifiedError
  | NetworkError
  | TimeoutError
  | BrokenListError
  | BatchInterruptedError;

export function isStoreOrdersError(error: unknown): error is AnyStoreOrdersError {
  return error instanceof StoreOrdersError;
}
