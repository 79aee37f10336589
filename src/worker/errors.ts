import type { Context } from "hono";
import { ERROR_STATUS, type ErrorCode } from "../rules/error-codes.ts";

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
