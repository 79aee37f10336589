import type { QUOTA_HEADERS } from "../rules/limits/headers.ts";
import { WINDOW_SECONDS } from "../rules/limits/windows.ts";

interface Header {
  readonly description: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly example: string | number;
  /** False for `Deprecation` and `Sunset`, sent only if the operator has set them. Default true. */
  readonly required?: false;
}

const { minute, day } = WINDOW_SECONDS;

/** The headers of every response under `/v1`. */
const everywhere = {
  "X-RateLimit-Limit": {
    description:
      "The limit of the window with the fewest requests left; on a tie, of the window that ends later. On a 429, the limit of the window that refused.",
    schema: { type: "integer", minimum: 1 },
    example: 60,
  },
  "X-RateLimit-Remaining": {
    description: "The requests left in the window of `X-RateLimit-Limit`.",
    schema: { type: "integer", minimum: 0 },
    example: 59,
  },
  "X-RateLimit-Reset": {
    description: "The end of the window of `X-RateLimit-Limit` in Unix seconds, rounded up.",
    schema: { type: "integer", minimum: 1 },
    example: 1795247754,
  },
  "RateLimit-Policy": {
    description:
      "The limit (`q`) and the length in seconds (`w`) of both windows: draft-ietf-httpapi-ratelimit-headers-11.",
    schema: { type: "string", pattern: `^"minute";q=\\d+;w=${minute}, "day";q=\\d+;w=${day}$` },
    example: `"minute";q=60;w=${minute}, "day";q=1000;w=${day}`,
  },
  RateLimit: {
    description:
      "The requests left (`r`) and the seconds until the end (`t`) of both windows. During a ban, `r` is 0 and `t` equals `Retry-After`.",
    schema: { type: "string", pattern: '^"minute";r=\\d+;t=\\d+, "day";r=\\d+;t=\\d+$' },
    example: '"minute";r=59;t=60, "day";r=999;t=86400',
  },
  "X-Request-Id": {
    description: "The id of this request: yours, if you sent one. Quote it to report a problem.",
    schema: { type: "string", minLength: 1 },
    example: "5326b8b8-ae4f-4a2d-b4e5-b61b76a5b63f",
  },
  Link: {
    description:
      "The OpenAPI document (`service-desc`) and the reference page (`service-doc`, RFC 8631). On an error, `help` names the section of the page about its code.",
    schema: {
      type: "string",
      pattern:
        '^</openapi\\.json>; rel="service-desc", </>; rel="service-doc"(, </#[a-z_]+>; rel="help")?$',
    },
    example: '</openapi.json>; rel="service-desc", </>; rel="service-doc"',
  },
  Deprecation: {
    description: "The time from which this version is deprecated (RFC 9745).",
    schema: { type: "string", pattern: "^@-?\\d+$" },
    example: "@1830297600",
    required: false,
  },
  Sunset: {
    description: "The time from which this version may stop answering (RFC 8594).",
    schema: {
      type: "string",
      pattern: "^[A-Z][a-z]{2}, \\d{2} [A-Z][a-z]{2} \\d{4} [\\d:]{8} GMT$",
    },
    example: "Sat, 01 Jul 2028 00:00:00 GMT",
    required: false,
  },
} as const satisfies Record<string, Header>;

const someResponses = {
  "Retry-After": {
    description:
      "Whole seconds to wait. On a 429: wait that long and send one request; it is admitted.",
    schema: { type: "integer", minimum: 1 },
    example: 5,
  },
  ETag: {
    description: "The version of the list. It changes with every change of an order.",
    schema: { type: "string", pattern: '^"[^"]+"$' },
    example: '"b635bf2fd4266e169c4c0e2344af96d9"',
  },
  "Cache-Control": {
    description:
      "Only your own cache may keep the list. Send `If-None-Match` before you use it again.",
    schema: { type: "string", enum: ["private, no-cache"] },
    example: "private, no-cache",
  },
  "WWW-Authenticate": {
    description:
      "The authentication scheme. Contains `error` only if a bearer token was sent (RFC 6750).",
    schema: { type: "string", pattern: '^Bearer realm="store-orders"(, error="invalid_token")?$' },
    example: 'Bearer realm="store-orders"',
  },
  Allow: {
    description: "The methods of this path.",
    schema: { type: "string", enum: ["GET, HEAD", "DELETE"] },
    example: "GET, HEAD",
  },
} as const satisfies Record<string, Header>;

const headers = { ...everywhere, ...someResponses } satisfies Record<
  (typeof QUOTA_HEADERS)[number],
  Header
>;

export type HeaderName = keyof typeof headers;

export const componentHeaders = Object.fromEntries(
  Object.entries<Header>(headers).map(([name, { required = true, ...header }]) => [
    name,
    { ...header, required },
  ]),
);

/** Returns references to the headers in `own` and to the headers of every response. */
export function headerRefs(...own: HeaderName[]): Record<string, { $ref: string }> {
  return Object.fromEntries(
    [...own, ...Object.keys(everywhere)].map((name) => [
      name,
      { $ref: `#/components/headers/${name}` },
    ]),
  );
}
