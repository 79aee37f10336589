import type { Context } from "hono";

/** Every `code` of an error answer and its HTTP status (docs/api.md, Errors). */
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
  /** A fault of the service. */
  internal_error: 500,
  /** The database, the key's limiter or the list cannot answer at the moment. */
  service_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** The content of an error answer. */
export interface ApiFailure {
  readonly code: ErrorCode;
  /** Tells the caller what was wrong and what to do next. Sent unchanged. */
  readonly message: string;
  /** Headers that belong to this error, such as `Allow` or `Retry-After`. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Ends a request with an error answer. Routes and middleware throw it, and the app writes it. */
export class ApiError extends Error implements ApiFailure {
  override readonly name = "ApiError";
  readonly code: ErrorCode;
  readonly headers: Readonly<Record<string, string>>;

  /** @param message see {@link ApiFailure}. */
  constructor(code: ErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }
}

/** Writes an error answer, whose body has no other field (docs/api.md, Errors). */
export function writeError(c: Context, { code, message, headers }: ApiFailure): Response {
  const status = ERROR_STATUS[code];
  c.set("errorCode", code);
  return Response.json({ code, message, status }, { status, headers });
}

/** Quotes a caller's text for a message, and cuts it off after 100 characters. */
export function quote(text: string): string {
  return JSON.stringify(text.length <= 100 ? text : `${text.slice(0, 100)}…`);
}
