import type { Context } from "hono";

/** Every `code` of the Error body and its HTTP status (contract, section 1). */
export const ERROR_STATUS = {
  /** The API key is missing, malformed, unknown, expired or revoked. */
  unauthorized: 401,
  /** No order has this `orderId`. */
  order_not_found: 404,
  /** There is no such path. */
  not_found: 404,
  /** The path is known, but not with this method. */
  method_not_allowed: 405,
  /** The order has shipped; it is unchanged. */
  order_already_shipped: 409,
  /** A window is full. */
  rate_limit_exceeded: 429,
  /** The key is under a temporary ban. */
  api_key_banned: 429,
  /** A fault of ours. */
  internal_error: 500,
  /** The database cannot be reached, or the key's limiter is overloaded. */
  service_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** What an error answer says. */
export interface ApiFailure {
  readonly code: ErrorCode;
  /** Tells the caller what was wrong and what to do next; it is sent as it is. */
  readonly message: string;
  /** Headers that belong to this error, such as `Allow` or `Retry-After`. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A request that ends in an error answer. Thrown by routes and middleware, written by the app alone. */
export class ApiError extends Error implements ApiFailure {
  override readonly name = "ApiError";
  readonly code: ErrorCode;
  readonly headers: Readonly<Record<string, string>>;

  /** @param message tells the caller what was wrong and what to do next; it is sent as it is. */
  constructor(code: ErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }
}

/** Writes the Error body of the specification (section Errors) and nothing else. */
export function writeError(c: Context, { code, message, headers }: ApiFailure): Response {
  const status = ERROR_STATUS[code];
  c.set("errorCode", code);
  return Response.json({ code, message, status }, { status, headers });
}

/** What a caller sent, as a message can repeat it: quoted, and cut off where it is long. */
export function quote(text: string): string {
  return JSON.stringify(text.length <= 100 ? text : `${text.slice(0, 100)}…`);
}
