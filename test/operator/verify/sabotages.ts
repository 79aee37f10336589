import type { Send } from "../../../src/operator/verify/service-promise.ts";

/**
 * Ways to make the service break a documented promise: what the service then does, the promise that
 * `verify` must report as broken, and a function that returns a `Send` which changes requests or
 * responses. `verify` tries some promises only with an option.
 */
type Sabotage = readonly [
  does: string,
  breaks: RegExp,
  sabotage: (send: Send) => Send,
  scope?: "limits" | "orders",
];

interface SentRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
}

interface ReceivedAnswer {
  status: number;
  readonly headers: Headers;
  body: string;
}

const LIST = "/v1/store/orders";
const LISTING = /^\/v1\/store\/orders$/;
/** Matches the path of the pending order that `verify` inserts. */
const OWN_ORDER = /^\/v1\/store\/orders\/-[6-9]\d{18}$/;
const ORDER = /^\/v1\/store\/orders\/-?\d+$/;

/**
 * Creates a `sabotage` function that changes responses.
 *
 * @param make called at the beginning of each run of `verify`; returns the function that changes
 *   each response.
 */
function answers(
  make: () => (found: ReceivedAnswer, sent: SentRequest) => void,
): (send: Send) => Send {
  return (send) => {
    const change = make();
    return async (url, init) => {
      const { pathname: path } = new URL(url);
      const { method = "GET" } = init;
      const response = await send(url, init);
      const { status, headers } = response;
      const found = { status, headers: new Headers(headers), body: await response.text() };
      change(found, { method, path, headers: new Headers(init.headers) });
      const hasBody = ![204, 304].includes(found.status) && method !== "HEAD";
      return new Response(hasBody ? found.body : null, found);
    };
  };
}

/**
 * Creates a `sabotage` function that changes each response with this HTTP status from this path.
 */
function answer(
  status: number,
  path: RegExp,
  change: (found: ReceivedAnswer, sent: SentRequest) => void,
): (send: Send) => Send {
  return answers(() => (found, sent) => {
    if (found.status === status && path.test(sent.path)) change(found, sent);
  });
}

/** Creates a `sabotage` function that changes only the first response with this HTTP status. */
function firstAnswer(
  status: number,
  change: (found: ReceivedAnswer) => void,
): (send: Send) => Send {
  return answers(() => {
    let isChanged = false;
    return (found) => {
      if (isChanged || found.status !== status) return;
      isChanged = true;
      change(found);
    };
  });
}

/** Creates a `sabotage` function that changes requests before the service receives them. */
function request(change: (url: URL, headers: Headers) => void): (send: Send) => Send {
  return (send) => (url, init) => {
    const changed = new URL(url);
    const headers = new Headers(init.headers);
    change(changed, headers);
    return send(changed.href, { ...init, headers });
  };
}

/** Creates a `sabotage` function that sets or removes a header of such responses. */
function header(status: number, path: RegExp, name: string, value: string | null) {
  return answer(status, path, ({ headers }) =>
    value === null ? headers.delete(name) : headers.set(name, value),
  );
}

/** Creates a `sabotage` function that changes the body of such responses. */
function body(status: number, path: RegExp, change: (body: string) => string) {
  return answer(status, path, changeBody(change));
}

function replaceIn(
  headers: Headers,
  name: string,
  pattern: RegExp,
  change: (text: string) => string,
): void {
  headers.set(name, (headers.get(name) ?? "").replaceAll(pattern, change));
}

function becomeUnchanged(found: ReceivedAnswer): void {
  found.status = 304;
  found.headers.set("ETag", '"0f"');
  found.headers.set("Cache-Control", "private, no-cache");
  for (const name of ["Retry-After", "Content-Type", "Content-Length", "WWW-Authenticate"]) {
    found.headers.delete(name);
  }
}

function becomeError(found: ReceivedAnswer, status: number, code: string): void {
  found.status = status;
  found.body = JSON.stringify({ code, message: "No.", status });
  for (const name of ["ETag", "Cache-Control", "WWW-Authenticate", "Content-Length"]) {
    found.headers.delete(name);
  }
  found.headers.set("Content-Type", "application/json");
}

function changeBody(change: (body: string) => string): (found: ReceivedAnswer) => void {
  return (found) => {
    found.body = change(found.body);
    found.headers.delete("Content-Length");
  };
}

/** Adds to the number of requests that are left. */
function addRemaining(headers: Headers, count: number): void {
  const add = (text: string) => String(Number(text) + count);
  replaceIn(headers, "X-RateLimit-Remaining", /\d+/g, add);
  replaceIn(headers, "RateLimit", /(?<=r=)\d+/g, add);
}

export const SABOTAGES: readonly Sabotage[] = [
  // Limits
  [
    "admits one request too many",
    /exactly as many are admitted/,
    firstAnswer(429, becomeUnchanged),
    "limits",
  ],
  [
    "counts two requests once",
    /exactly as many are admitted/,
    answers(() => {
      const seen: Headers[] = [];
      return ({ status, headers }) => {
        if (status !== 304 || seen.push(headers) !== 2) return;
        for (const name of ["X-RateLimit-Remaining", "RateLimit"]) {
          headers.set(name, seen[0]?.get(name) ?? "");
        }
      };
    }),
    "limits",
  ],
  [
    "gives a Free key 61 requests a minute",
    /exactly as many are admitted/,
    answers(() => ({ headers }) => {
      if (!headers.has("RateLimit-Policy")) return;
      replaceIn(headers, "RateLimit-Policy", /q=60;/g, () => "q=61;");
      replaceIn(headers, "X-RateLimit-Limit", /^60$/g, () => "61");
    }),
    "limits",
  ],
  [
    "sends a Retry-After that is a second too short",
    /returns 429 with Retry-After/,
    header(429, LISTING, "Retry-After", "59"),
    "limits",
  ],
  [
    "counts refused requests in the day",
    /counts in no window/,
    answers(() => {
      let refused = 0;
      return ({ status, headers }) => {
        if (!headers.has("RateLimit") || status === 401) return;
        if (status === 429) refused += 1;
        const less = (text: string) => String(Number(text) - refused);
        replaceIn(headers, "RateLimit", /(?<="day";r=)\d+/g, less);
      };
    }),
    "limits",
  ],
  [
    "bans at once",
    /returns 429 with Retry-After/,
    body(429, LISTING, (text) => text.replace("rate_limit_exceeded", "api_key_banned")),
    "limits",
  ],
  [
    "announces the end of the minute too early, in every header",
    /waits for Retry-After is admitted/,
    answer(429, LISTING, ({ headers }) => {
      headers.set("Retry-After", "5");
      replaceIn(headers, "RateLimit", /(?<="minute";r=0;t=)\d+/g, () => "5");
    }),
    "limits",
  ],
  // Rate-limit headers
  [
    "describes the day although the minute has fewer requests left",
    /one JSON array/,
    answer(200, LISTING, ({ headers }) => {
      headers.set("X-RateLimit-Limit", "1000");
      headers.set("X-RateLimit-Remaining", "999");
    }),
  ],
  [
    "sends X-RateLimit-Reset in milliseconds",
    /Without a key/,
    answer(401, LISTING, ({ headers }) =>
      replaceIn(headers, "X-RateLimit-Reset", /$/g, () => "000"),
    ),
  ],
  [
    "does not count a 404",
    /Each request counts once/,
    answers(() => {
      let given = 0;
      return ({ status, headers }, { path }) => {
        if (!headers.has("RateLimit") || status === 401) return;
        if (status === 404 && path === "/v1/verify") given += 1;
        addRemaining(headers, given);
      };
    }),
  ],
  // Authentication
  [
    "does not report an invalid token as invalid",
    /Two tokens/,
    header(401, LISTING, "WWW-Authenticate", 'Bearer realm="store-orders"'),
  ],
  [
    "accepts a key from the query string",
    /query string or a cookie is ignored/,
    request(({ searchParams }, headers) => {
      const key = searchParams.get("api_key");
      if (key !== null) headers.set("Authorization", `Bearer ${key}`);
    }),
  ],
  [
    "reveals to clients without a key which paths exist",
    /unknown path under \/v1 returns 401/,
    answer(401, /^\/v1\/verify$/, (found) => becomeError(found, 404, "not_found")),
  ],
  [
    "treats the scheme Bearer as case-sensitive",
    /scheme's name/,
    request((_, headers) => {
      if (headers.get("Authorization")?.startsWith("bEARER")) headers.delete("Authorization");
    }),
  ],
  // Errors and ids
  [
    "contradicts the OpenAPI document",
    /trailing slash/,
    body(404, /^\/v1\/verify$/, (text) => text.replace("}", ',"trace":1}')),
  ],
  [
    "shows SQL in an error",
    /no int64/,
    body(404, /abc$/, (text) => text.replace(/int64/, "int64: SELECT id FROM orders")),
  ],
  [
    "does not repeat X-Request-Id",
    /healthz/,
    request((_, headers) => headers.delete("X-Request-Id")),
  ],
  // Browsers
  [
    "allows scripts of every origin to send requests",
    /not listed may not call/,
    answers(
      () =>
        ({ headers }) =>
          headers.set("Access-Control-Allow-Origin", "*"),
    ),
  ],
  [
    "does not allow listed origins to send If-None-Match",
    /listed origin may call/,
    answer(204, LISTING, ({ headers }) =>
      replaceIn(headers, "Access-Control-Allow-Headers", /If-None-Match,/gi, () => ""),
    ),
  ],
  [
    "hides Retry-After from listed origins",
    /listed origin may call/,
    answer(401, LISTING, ({ headers }) => {
      if (headers.has("Access-Control-Expose-Headers"))
        replaceIn(headers, "Access-Control-Expose-Headers", /Retry-After,/gi, () => "");
    }),
  ],
  // The list
  [
    "ignores If-None-Match",
    /ETag returns 304/,
    request((_, headers) => headers.delete("If-None-Match")),
  ],
  [
    "answers 304 to every If-None-Match",
    /another tag returns 200/,
    request((_, headers) => {
      if (headers.has("If-None-Match")) headers.set("If-None-Match", "*");
    }),
  ],
  [
    "lists in descending order",
    /one JSON array/,
    body(
      200,
      LISTING,
      (text) =>
        `[${text
          .slice(1, -1)
          .split(/(?<=\}),/)
          .toReversed()
          .join(",")}]`,
    ),
  ],
  [
    "rounds integers as JSON.parse does",
    /int64 in plain decimals/,
    body(200, LISTING, (text) => JSON.stringify(JSON.parse(text))),
  ],
  [
    "honours query parameters",
    /Query parameters/,
    request((url) => {
      if (url.searchParams.has("page")) url.pathname = "/v1/pages";
    }),
  ],
  // Paths and methods
  [
    "serves paths with a trailing slash",
    /new id|trailing slash/,
    request((url) => {
      url.pathname = url.pathname.replace(/(?<=.)\/$/, "");
    }),
  ],
  [
    "accepts the id 007 as 7",
    /no int64/,
    request((url) => {
      url.pathname = url.pathname.replace("/007", "/7");
    }),
  ],
  ["names the wrong methods in Allow", /405 with Allow/, header(405, ORDER, "Allow", "GET, HEAD")],
  // Outside /v1
  ["allows caches to store /healthz", /healthz/, header(200, /^\/healthz$/, "Cache-Control", null)],
  [
    "was deployed without its static files",
    /openapi\.json/,
    answer(200, /^\/openapi\.json$/, (found) => becomeError(found, 404, "not_found")),
  ],
  // Orders
  [
    "changes a digit of an order",
    /digit for digit/,
    body(200, LISTING, (text) =>
      text.replaceAll('"petId":9223372036854775807', '"petId":9223372036854775806'),
    ),
    "orders",
  ],
  [
    "answers every cancellation of an order with 204",
    /one returns 204/,
    answer(404, OWN_ORDER, (found) => {
      found.status = 204;
      found.body = "";
      found.headers.delete("Content-Type");
      found.headers.delete("Content-Length");
    }),
    "orders",
  ],
  [
    "lists a cancelled order",
    /lacks the order/,
    answers(() => {
      let stale: string | undefined;
      return (found, { path }) => {
        if (path !== LIST || found.status !== 200 || found.body === "") return;
        if (/"id":-[6-9]\d{18},"petId":9223372036854775807/.test(found.body)) stale = found.body;
        else changeBody((text) => stale ?? text)(found);
      };
    }),
    "orders",
  ],
  [
    "answers 404 for a shipped order",
    /shipped order/,
    answer(409, ORDER, (found) => becomeError(found, 404, "order_not_found")),
    "orders",
  ],
  // Keys
  [
    "accepts a revoked key",
    /revoked key/,
    answers(() => {
      const valid = new Set<string>();
      return (found, { headers }) => {
        const sent = headers.get("Authorization") ?? "";
        if (found.status === 304) valid.add(sent);
        if (found.status === 401 && valid.has(sent)) becomeUnchanged(found);
      };
    }),
  ],
];
