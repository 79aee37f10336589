import type { Context } from "hono";
import type { Quota } from "../rules/limits/decision.ts";
import { retryAfterSeconds } from "../rules/limits/headers.ts";
import { ERROR_STATUS, type ErrorCode } from "../rules/error-codes.ts";

/** The content of an error response. */
export interface ApiFailure {
  readonly code: ErrorCode;
  /** States what was wrong and what to do next. Never repeats what the caller sent. */
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
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
export function writeError(c: Context, { code, message, headers = {} }: ApiFailure): Response {
  const status = ERROR_STATUS[code];
  c.set("errorCode", code);
  return Response.json({ code, message, status }, { status, headers });
}

/**
 * Returns the 429 error of a refused request (docs/api.md, Errors). The error is returned instead
 * of thrown, because capturing a stack trace would be most of the cost of a refusal.
 */
export function rateLimitError(quota: Quota, reason: string): ApiFailure {
  const seconds = retryAfterSeconds(quota);
  const wait = `Wait ${seconds} ${seconds === 1 ? "second" : "seconds"} before the next request.`;
  const code = quota.banned ? "api_key_banned" : "rate_limit_exceeded";
  return { code, message: `${reason} ${wait}`, headers: { "Retry-After": String(seconds) } };
}

/** Returns a handler that responds with 405 and the header `Allow` (RFC 9110, section 15.5.6). */
export function methodNotAllowed(allow: string) {
  return function methodNotAllowedHandler(): never {
    throw new ApiError(
      "method_not_allowed",
      `This method is not possible here. Use ${allow.replace(", ", " or ")}.`,
      { Allow: allow },
    );
  };
}
