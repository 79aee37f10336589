import type { Context } from "hono";

/** Every `code` of an error response, with its HTTP status (docs/api.md, Errors). */
export const ERROR_STATUS = {
  unauthorized: 401,
  order_not_found: 404,
  not_found: 404,
  method_not_allowed: 405,
  order_already_shipped: 409,
  rate_limit_exceeded: 429,
  api_key_banned: 429,
  internal_error: 500,
  /** A database outage, an overloaded limiter, a list that is too long, or too many long lists. */
  service_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** The content of an error response. */
export interface ApiFailure {
  readonly code: ErrorCode;
  /** States what was wrong and what to do next. The response contains this text unchanged. */
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Ends a request with an error response, which the app's error handler writes. */
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

/** Creates an error response. Its JSON body has only the fields in docs/api.md, Errors. */
export function writeError(c: Context, { code, message, headers }: ApiFailure): Response {
  const status = ERROR_STATUS[code];
  c.set("errorCode", code);
  return Response.json({ code, message, status }, { status, headers });
}

/** Quotes at most 100 characters of text from an HTTP request for an error message. */
export function quote(text: string): string {
  return JSON.stringify(text.length <= 100 ? text : `${text.slice(0, 100)}…`);
}
