/** Every `code` of an error response, with its HTTP status (docs/api.md, Errors). */
export const ERROR_STATUS = {
  unauthorized: 401,
  https_required: 403,
  order_not_found: 404,
  not_found: 404,
  method_not_allowed: 405,
  order_already_shipped: 409,
  precondition_failed: 412,
  rate_limit_exceeded: 429,
  api_key_banned: 429,
  internal_error: 500,
  /** A database outage, an overloaded limiter, a list that is too long, or too many long lists. */
  service_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;
