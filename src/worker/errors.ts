import type { Context } from "hono";

/** Every `code` of an error response, with its HTTP status (docs/api.md, Errors). */
export const ERROR_STATUS = {
  /** The API key is missing, malformed, unknown, expired or revoked. */
  unauthorized: 401,
  /** No order has this `orderId`. */
  order_not_found: 404,
  /** There is no such path. */
  not_found: 404,
  /** The path exists, but does not support this method. */
  method_not_allowed: 405,
  /** The order has shipped, so it was not cancelled. */
  order_already_shipped: 409,
  /** The key or the client address has used all requests of its minute window or its day window. */
  rate_limit_exceeded: 429,
  /** The key is under a temporary ban. */
  api_key_banned: 429,
  /** A bug in the service. */
  internal_error: 500,
  /**
   * A database cannot be reached, the key's limiter is overloaded, the list of orders is too long,
   * or the isolate is already sending too many long lists.
   */
  service_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** The content of an error response. */
export interface ApiFailure {
  readonly code: ErrorCode;
  /** States what was wrong and what to do next. The response contains this text unchanged. */
  readonly message: string;
  /** Headers that belong to this error, such as `Allow` or `Retry-After`. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Ends a request with an error response. Routes and middleware throw an `ApiError`; the app's error
 * handler writes the response.
 */
export class ApiError extends Error implements ApiFailure {
  override readonly name = "ApiError";
  readonly code: ErrorCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }
}

/** Creates an error response. Its JSON body has only these three fields (docs/api.md, Errors). */
export function writeError(c: Context, { code, message, headers }: ApiFailure): Response {
  const status = ERROR_STATUS[code];
  c.set("errorCode", code);
  return Response.json({ code, message, status }, { status, headers });
}

/**
 * Quotes text from an HTTP request for an error message. Text after the first 100 characters is cut
 * off.
 */
export function quote(text: string): string {
  return JSON.stringify(text.length <= 100 ? text : `${text.slice(0, 100)}…`);
}
