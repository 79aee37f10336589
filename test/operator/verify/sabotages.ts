import type { Send } from "../../../src/operator/verify/service-promise.ts";

/**
 * Sabotaged services: for each, the promise that `verify` must report as broken, and a function that
 * changes requests or responses.
 */
type Sabotages = Readonly<Record<string, readonly [breaks: RegExp, (send: Send) => Send]>>;

interface ReceivedAnswer {
  readonly path: string;
  /** The request's `Authorization` header. */
  readonly authorization: string | null;
  status: number;
  readonly headers: Headers;
  body: string;
}

const LIST = /^\/v1\/store\/orders$/;
const ORDER = /^\/v1\/store\/orders\/-?\d+$/;
/** The path of the pending order that `verify` inserts. */
const OWN_ORDER = /^\/v1\/store\/orders\/-[6-9]\d{18}$/;
const UNKNOWN = /^\/v1\/verify$/;

/** Changes responses with this status and path. `before` has all earlier responses, unchanged. */
function answer(
  status: number | RegExp,
  path: RegExp,
  change: (found: ReceivedAnswer, before: readonly ReceivedAnswer[]) => void,
): (send: Send) => Send {
  const statuses = typeof status === "number" ? new RegExp(`${status}`) : status;
  return (send) => {
    const before: ReceivedAnswer[] = [];
    return async (url, init) => {
      const response = await send(url, init);
      const found: ReceivedAnswer = {
        path: new URL(url).pathname,
        authorization: new Headers(init.headers).get("Authorization"),
        status: response.status,
        headers: new Headers(response.headers),
        body: await response.text(),
      };
      const sent = { ...found, headers: new Headers(found.headers) };
      if (statuses.test(`${found.status}`) && path.test(found.path)) change(found, before);
      before.push(sent);
      const hasBody = ![204, 304].includes(found.status) && init.method !== "HEAD";
      return new Response(hasBody ? found.body : null, found);
    };
  };
}

function request(change: (url: URL, headers: Headers) => void): (send: Send) => Send {
  return (send) => (url, init) => {
    const changed = new URL(url);
    const headers = new Headers(init.headers);
    change(changed, headers);
    return send(changed.href, { ...init, headers });
  };
}

function header(status: number, path: RegExp, name: string, value: string) {
  return answer(status, path, ({ headers }) => headers.set(name, value));
}

function body(status: number, path: RegExp, change: (body: string) => string) {
  return answer(status, path, (found) => void (found.body = change(found.body)));
}

/** Replaces each match of `part` in a header. `by` is the new text, or a function of the match. */
function edit(
  { headers }: ReceivedAnswer,
  name: string,
  part: RegExp,
  by: string | ((text: string) => string),
) {
  const text = headers.get(name);
  if (text !== null) headers.set(name, text.replaceAll(part, by as string));
}

/** Turns a response into a 204, a 304 or an error with the same rate-limit headers. */
function become(found: ReceivedAnswer, status: number, code?: string): void {
  found.status = status;
  found.body = JSON.stringify({ code, message: "No.", status });
  const names = ["Retry-After", "Content-Type", "WWW-Authenticate", "ETag", "Cache-Control"];
  for (const name of names) found.headers.delete(name);
  if (code !== undefined) found.headers.set("Content-Type", "application/json");
  if (status !== 304) return;
  found.headers.set("ETag", '"0f"');
  found.headers.set("Cache-Control", "private, no-cache");
}

/** Sabotages that show only if the verification uses up the limit per minute. */
export const LIMIT_SABOTAGES: Sabotages = {
  "admits one request too many": [
    /exactly as many are admitted/,
    answer(429, LIST, (found, before) => {
      if (!before.some(({ status }) => status === 429)) become(found, 304);
    }),
  ],
  "counts two requests once": [
    /exactly as many are admitted/,
    answer(304, LIST, ({ headers }, before) => {
      const [first, ...others] = before.filter(({ status }) => status === 304);
      if (first === undefined || others.length > 0) return;
      for (const name of ["X-RateLimit-Remaining", "RateLimit"]) {
        headers.set(name, first.headers.get(name) ?? "");
      }
    }),
  ],
  "gives a Free key 61 requests a minute": [
    /exactly as many are admitted/,
    answer(/./, LIST, (found) => {
      edit(found, "RateLimit-Policy", /q=60;/g, "q=61;");
      edit(found, "X-RateLimit-Limit", /^60$/g, "61");
    }),
  ],
  "sends a shorter Retry-After": [/returns 429 with/, header(429, LIST, "Retry-After", "59")],
  "counts refused requests in the day": [
    /counts in no window/,
    answer(/304|429/, LIST, (found, before) => {
      const refused = [...before, found].filter(({ status }) => status === 429).length;
      edit(found, "RateLimit", /(?<="day";r=)\d+/g, (text) => `${Number(text) - refused}`);
    }),
  ],
  "bans at once": [
    /returns 429 with/,
    body(429, LIST, (text) => text.replace("rate_limit_exceeded", "api_key_banned")),
  ],
  "announces the end of the minute too early, in every header": [
    /waits for Retry-After is admitted/,
    answer(429, LIST, (found) => {
      found.headers.set("Retry-After", "5");
      edit(found, "RateLimit", /(?<="minute";r=0;t=)\d+/g, "5");
    }),
  ],
};

/** Sabotages that show only if the verification places an order. */
export const ORDER_SABOTAGES: Sabotages = {
  "ignores If-Match of a cancellation": [
    /precondition is false/,
    request(({ pathname }, headers) => {
      if (OWN_ORDER.test(pathname)) headers.delete("If-Match");
    }),
  ],
  "ignores If-None-Match of a cancellation": [
    /precondition is false/,
    request(({ pathname }, headers) => {
      if (OWN_ORDER.test(pathname)) headers.delete("If-None-Match");
    }),
  ],
  "changes a digit of an order": [
    /digit for digit/,
    body(200, LIST, (text) => text.replace(/(?<="petId":922337203685477580)7/, "6")),
  ],
  "answers every cancellation of an order with 204": [
    /one returns 204/,
    answer(404, OWN_ORDER, (found) => become(found, 204)),
  ],
  "lists a cancelled order": [
    /lacks the order/,
    answer(200, LIST, (found, before) => {
      const stale = before.find(({ body: text }) => /"id":-[6-9]\d{18},"petId":9/.test(text));
      if (stale !== undefined) found.body = stale.body;
    }),
  ],
  "answers 404 for a shipped order": [
    /shipped order/,
    answer(409, ORDER, (found) => become(found, 404, "order_not_found")),
  ],
};

export const SABOTAGES: Sabotages = {
  // Rate-limit headers
  "announces the limit of the day": [
    /one JSON array/,
    header(200, LIST, "X-RateLimit-Limit", "1000"),
  ],
  "announces the requests that are left in the day": [
    /one JSON array/,
    header(200, LIST, "X-RateLimit-Remaining", "999"),
  ],
  "sends X-RateLimit-Reset in milliseconds": [
    /Without a key/,
    answer(401, LIST, (found) => edit(found, "X-RateLimit-Reset", /$/g, "000")),
  ],
  "does not count a 404": [
    /Each request counts once/,
    answer(/200|304|40[45]/, /^\/v1/, (found, before) => {
      const uncounted = [...before, found].filter(
        ({ status, path }) => status === 404 && UNKNOWN.test(path),
      );
      const more = (text: string) => `${Number(text) + uncounted.length}`;
      edit(found, "X-RateLimit-Remaining", /\d+/g, more);
      edit(found, "RateLimit", /(?<=r=)\d+/g, more);
    }),
  ],
  // Authentication
  "does not report an invalid token as invalid": [
    /Two tokens/,
    header(401, LIST, "WWW-Authenticate", 'Bearer realm="store-orders"'),
  ],
  "accepts a key from the query string": [
    /query string or a cookie is ignored/,
    request(({ searchParams }, headers) => {
      const key = searchParams.get("api_key");
      if (key !== null) headers.set("Authorization", `Bearer ${key}`);
    }),
  ],
  "reveals to clients without a key which paths exist": [
    /unknown path under \/v1 returns 401/,
    answer(401, UNKNOWN, (found) => become(found, 404, "not_found")),
  ],
  "treats the scheme Bearer as case-sensitive": [
    /scheme's name/,
    request((_, headers) => {
      if (headers.get("Authorization")?.startsWith("bEARER")) headers.delete("Authorization");
    }),
  ],
  "accepts a revoked key": [
    /revoked key/,
    answer(401, LIST, (found, before) => {
      const isSame = ({ status, authorization }: ReceivedAnswer) =>
        status === 304 && authorization === found.authorization;
      if (before.some(isSame)) become(found, 304);
    }),
  ],
  // Errors and ids
  "contradicts the OpenAPI document": [
    /new id/,
    body(404, UNKNOWN, (text) => text.replace("}", ',"trace":1}')),
  ],
  "shows SQL in an error": [
    /no int64/,
    body(404, /abc$/, (text) => text.replace(/int64/, "int64: SELECT id FROM orders")),
  ],
  "drops X-Request-Id": [/healthz/, request((_, headers) => headers.delete("X-Request-Id"))],
  // Browsers
  "allows scripts of every origin to send requests": [
    /origin that is not listed/,
    answer(/./, /./, ({ headers }) => headers.set("Access-Control-Allow-Origin", "*")),
  ],
  // The list
  "ignores If-None-Match": [/ETag/, request((_, headers) => headers.delete("If-None-Match"))],
  "ignores If-Match of the list": [
    /If-Match with another tag/,
    request(({ pathname }, headers) => {
      if (LIST.test(pathname)) headers.delete("If-Match");
    }),
  ],
  "answers 304 to every If-None-Match": [
    /another tag, returns 200/,
    request((_, headers) => {
      if (headers.has("If-None-Match")) headers.set("If-None-Match", "*");
    }),
  ],
  "lists in descending order": [
    /one JSON array/,
    body(200, LIST, (text) => {
      const orders = text.slice(1, -1).split(/(?<=\}),/);
      return `[${orders.toReversed().join()}]`;
    }),
  ],
  "rounds integers as JSON.parse does": [
    /int64 in plain decimals/,
    body(200, LIST, (text) => JSON.stringify(JSON.parse(text || "[]"))),
  ],
  "honours query parameters": [
    /Query parameters/,
    request((url) => {
      if (url.searchParams.has("page")) url.pathname = "/v1/pages";
    }),
  ],
  // Paths and methods
  "serves paths with a trailing slash": [
    /new id|trailing slash/,
    request((url) => (url.pathname = url.pathname.replace(/(?<=.)\/$/, ""))),
  ],
  "accepts the id 007 as 7": [
    /no int64/,
    request((url) => (url.pathname = url.pathname.replace("/007", "/7"))),
  ],
  "names the wrong methods in Allow": [/405 with Allow/, header(405, ORDER, "Allow", "GET, HEAD")],
  // Outside /v1
  "lets caches store /healthz": [/healthz/, header(200, /z$/, "Cache-Control", "max-age=5")],
  "was deployed without its static files": [
    /openapi\.json/,
    answer(200, /^\/openapi\.json$/, (found) => become(found, 404, "not_found")),
  ],
};
