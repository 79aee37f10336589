import type { QUOTA_HEADERS } from "../rules/limits/headers.ts";
import { WINDOW_SECONDS } from "../rules/limits/windows.ts";

const { minute, day } = WINDOW_SECONDS;

/** The headers of every response under `/v1`. */
const everywhere = {
  "X-RateLimit-Limit": integer(
    "The limit of the window with the fewest requests left; on a tie, of the window that ends later. On a 429, the limit of the window that refused.",
    1,
    60,
  ),
  "X-RateLimit-Remaining": integer("Requests left in the window of `X-RateLimit-Limit`.", 0, 59),
  "X-RateLimit-Reset": integer(
    "The end of the window of `X-RateLimit-Limit` in Unix seconds, rounded up.",
    1,
    1795247754,
  ),
  "RateLimit-Policy": text(
    "The limit (`q`) and the length in seconds (`w`) of both windows: draft-ietf-httpapi-ratelimit-headers-11.",
    `^"minute";q=\\d+;w=${minute}, "day";q=\\d+;w=${day}$`,
    `"minute";q=60;w=${minute}, "day";q=1000;w=${day}`,
  ),
  RateLimit: text(
    "The requests left (`r`) and the seconds until the end (`t`) of both windows. During a ban, `r` is 0 and `t` equals `Retry-After`.",
    '^"minute";r=\\d+;t=\\d+, "day";r=\\d+;t=\\d+$',
    '"minute";r=59;t=60, "day";r=999;t=86400',
  ),
  "X-Request-Id": header(
    "The id of this request: yours, if you sent one. Quote it to report a problem.",
    { type: "string", minLength: 1 },
    "5326b8b8-ae4f-4a2d-b4e5-b61b76a5b63f",
  ),
  Link: text(
    "The OpenAPI document (`service-desc`) and the reference page (`service-doc`, RFC 8631). On an error, `help` names the section of the page about its code.",
    '^</openapi\\.json>; rel="service-desc", </>; rel="service-doc"(, </#[a-z_]+>; rel="help")?$',
    '</openapi.json>; rel="service-desc", </>; rel="service-doc"',
  ),
  Deprecation: text(
    "The time from which this version is deprecated (RFC 9745).",
    "^@-?\\d+$",
    "@1830297600",
    false,
  ),
  Sunset: text(
    "The time from which this version may stop answering (RFC 8594).",
    "^[A-Z][a-z]{2}, \\d{2} [A-Z][a-z]{2} \\d{4} [\\d:]{8} GMT$",
    "Sat, 01 Jul 2028 00:00:00 GMT",
    false,
  ),
};

const someResponses = {
  "Retry-After": integer(
    "Whole seconds to wait. On a 429: wait that long and send one request; it is admitted.",
    1,
    5,
  ),
  ETag: text(
    "The version of the list. It changes with every change of an order.",
    '^"[^"]+"$',
    '"b635bf2fd4266e169c4c0e2344af96d9"',
  ),
  "Cache-Control": header(
    "On a list: only your own cache may keep it; send `If-None-Match` before you use it again. On a quota: no cache may keep it.",
    { type: "string", enum: ["private, no-cache", "no-store"] },
    "private, no-cache",
  ),
  "WWW-Authenticate": text(
    "The authentication scheme. Contains `error` only if a bearer token was sent (RFC 6750).",
    '^Bearer realm="store-orders"(, error="invalid_token")?$',
    'Bearer realm="store-orders"',
  ),
  Allow: header(
    "The methods of this path.",
    { type: "string", enum: ["GET, HEAD", "DELETE"] },
    "GET, HEAD",
  ),
};

/** The headers by name, in the form of `components.headers`. */
export const componentHeaders = { ...someResponses, ...everywhere } satisfies Record<
  (typeof QUOTA_HEADERS)[number],
  object
>;

export type HeaderName = keyof typeof componentHeaders;

/** Returns references to the headers in `own` and to the headers of every response. */
export function headerRefs(...own: HeaderName[]): Record<string, { $ref: string }> {
  return Object.fromEntries(
    [...own, ...Object.keys(everywhere)].map((name) => [
      name,
      { $ref: `#/components/headers/${name}` },
    ]),
  );
}

/** Returns `Cache-Control` where it always has one value. */
export function cacheControl(example: string): Record<string, object> {
  const schema = { type: "string", enum: [example] };
  return { "Cache-Control": { ...componentHeaders["Cache-Control"], schema, example } };
}

function integer(description: string, minimum: number, example: number) {
  return header(description, { type: "integer", minimum }, example);
}

/** @param required is false for the headers that are sent only if the operator has set them. */
function text(description: string, pattern: string, example: string, required = true) {
  return header(description, { type: "string", pattern }, example, required);
}

function header(description: string, schema: object, example: string | number, required = true) {
  return { description, schema, example, required };
}
