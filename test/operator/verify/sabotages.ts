import type { Send } from "../../../src/operator/verify/caller.ts";

/**
 * A group of promises that `ServiceOnTrial.verify` checks only if the test lists the group, because
 * the check uses up limits or changes data.
 */
export type Scope = "limits" | "orders" | "revocation";

/**
 * A way to make the service break a documented promise, and the promise that `verify` must then
 * report as broken.
 */
export interface Sabotage {
  readonly does: string;
  readonly scope?: Scope;
  readonly breaks: RegExp;
  /** Returns a `Send` for one run of `verify`; this `Send` changes requests or responses. */
  readonly sabotage: (send: Send) => Send;
}

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

function replaceIn(headers: Headers, name: string, pattern: RegExp, text: string): void {
  replaceWith(headers, name, pattern, () => text);
}

function replaceWith(
  headers: Headers,
  name: string,
  pattern: RegExp,
  change: (text: string) => string,
): void {
  headers.set(name, (headers.get(name) ?? "").replace(pattern, change));
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

export const SABOTAGES: readonly Sabotage[] = [
  // Limits
  {
    does: "admits one request too many",
    scope: "limits",
    breaks: /exactly as many are admitted/,
    sabotage: firstAnswer(429, becomeUnchanged),
  },
  {
    does: "admits one request too few",
    scope: "limits",
    breaks: /exactly as many are admitted/,
    sabotage: firstAnswer(304, (found) => {
      becomeError(found, 429, "rate_limit_exceeded");
      found.headers.set("Retry-After", "60");
    }),
  },
  {
    does: "counts two requests once",
    scope: "limits",
    breaks: /exactly as many are admitted/,
    sabotage: answers(() => {
      let first: Headers | undefined;
      let isRepeated = false;
      return ({ status, headers }) => {
        if (status !== 304 || isRepeated) return;
        if (first === undefined) {
          first = headers;
          return;
        }
        isRepeated = true;
        for (const name of ["X-RateLimit-Remaining", "RateLimit"]) {
          headers.set(name, first.get(name) ?? "");
        }
      };
    }),
  },
  {
    does: "gives a Free key 61 requests a minute",
    scope: "limits",
    breaks: /exactly as many are admitted/,
    sabotage: answers(() => ({ headers }) => {
      if (!headers.has("RateLimit-Policy")) return;
      replaceIn(headers, "RateLimit-Policy", /q=60;/, "q=61;");
      replaceIn(headers, "X-RateLimit-Limit", /^60$/, "61");
    }),
  },
  {
    does: "refuses without Retry-After",
    scope: "limits",
    breaks: /exactly as many are admitted/,
    sabotage: answer(429, LISTING, ({ headers }) => headers.delete("Retry-After")),
  },
  {
    does: "sends a Retry-After that is a second too short",
    scope: "limits",
    breaks: /returns 429 with Retry-After/,
    sabotage: answer(429, LISTING, ({ headers }) => headers.set("Retry-After", "59")),
  },
  {
    does: "counts refused requests in the day",
    scope: "limits",
    breaks: /counts in no window/,
    sabotage: answers(() => {
      let refused = 0;
      return ({ status, headers }) => {
        if (!headers.has("RateLimit") || status === 401) return;
        if (status === 429) refused += 1;
        const less = (text: string) => String(Number(text) - refused);
        replaceWith(headers, "RateLimit", /(?<="day";r=)\d+/, less);
      };
    }),
  },
  {
    does: "bans at once",
    scope: "limits",
    breaks: /returns 429 with Retry-After/,
    sabotage: answer(
      429,
      LISTING,
      changeBody((body) => body.replace("rate_limit_exceeded", "api_key_banned")),
    ),
  },
  {
    does: "announces the end of the minute too early, in every header",
    scope: "limits",
    breaks: /waits for Retry-After is admitted/,
    sabotage: answer(429, LISTING, ({ headers }) => {
      headers.set("Retry-After", "5");
      replaceIn(headers, "RateLimit", /(?<="minute";r=0;t=)\d+/, "5");
    }),
  },
  // Rate-limit headers
  {
    does: "leaves RateLimit out of a 404",
    breaks: /trailing slash/,
    sabotage: answer(404, /^\/v1\/verify$/, ({ headers }) => headers.delete("RateLimit")),
  },
  {
    does: "describes the day although the minute has fewer requests left",
    breaks: /one JSON array/,
    sabotage: answer(200, LISTING, ({ headers }) => {
      headers.set("X-RateLimit-Limit", "1000");
      headers.set("X-RateLimit-Remaining", "999");
    }),
  },
  {
    does: "sends X-RateLimit-Reset in milliseconds",
    breaks: /Without a key/,
    sabotage: answer(401, LISTING, ({ headers }) =>
      headers.set("X-RateLimit-Reset", `${headers.get("X-RateLimit-Reset")}000`),
    ),
  },
  {
    does: "does not count a 404",
    breaks: /Each request counts once/,
    sabotage: answers(() => {
      let given = 0;
      return ({ status, headers }, { path }) => {
        if (!headers.has("RateLimit") || status === 401) return;
        if (status === 404 && path === "/v1/verify") given += 1;
        const more = (text: string) => String(Number(text) + given);
        const remaining = headers.get("X-RateLimit-Remaining") ?? "";
        headers.set("X-RateLimit-Remaining", more(remaining));
        const windows = headers.get("RateLimit") ?? "";
        headers.set("RateLimit", windows.replaceAll(/(?<=r=)\d+/g, more));
      };
    }),
  },
  // Authentication
  {
    does: "answers 401 without WWW-Authenticate",
    breaks: /Without a key/,
    sabotage: answer(401, LISTING, ({ headers }) => headers.delete("WWW-Authenticate")),
  },
  {
    does: "calls a missing key an invalid token",
    breaks: /Without a key/,
    sabotage: answer(401, LISTING, ({ headers }) =>
      headers.set("WWW-Authenticate", 'Bearer realm="store-orders", error="invalid_token"'),
    ),
  },
  {
    does: "does not report an invalid token as invalid",
    breaks: /Two tokens/,
    sabotage: answer(401, LISTING, ({ headers }) =>
      headers.set("WWW-Authenticate", 'Bearer realm="store-orders"'),
    ),
  },
  {
    does: "accepts a key from the query string",
    breaks: /query string or a cookie is ignored/,
    sabotage: request(({ searchParams }, headers) => {
      const key = searchParams.get("api_key");
      if (key !== null) headers.set("Authorization", `Bearer ${key}`);
    }),
  },
  {
    does: "accepts a key from a cookie",
    breaks: /query string or a cookie is ignored/,
    sabotage: request((_, headers) => {
      const key = /key=(?<key>sord_\w+)/.exec(headers.get("Cookie") ?? "")?.groups?.["key"];
      if (key !== undefined) headers.set("Authorization", `Bearer ${key}`);
    }),
  },
  {
    does: "reveals to clients without a key which paths exist",
    breaks: /unknown path under \/v1 returns 401/,
    sabotage: answer(401, /^\/v1\/verify$/, (found) => becomeError(found, 404, "not_found")),
  },
  {
    does: "treats the scheme Bearer as case-sensitive",
    breaks: /scheme's name/,
    sabotage: request((_, headers) => {
      if (headers.get("Authorization")?.startsWith("bEARER")) headers.delete("Authorization");
    }),
  },
  // Errors and ids
  {
    does: "adds a field to errors",
    breaks: /trailing slash/,
    sabotage: answer(
      404,
      /^\/v1\/verify$/,
      changeBody((body) => body.replace("}", ',"trace":1}')),
    ),
  },
  {
    does: "shows SQL in an error",
    breaks: /no int64/,
    sabotage: answer(
      404,
      /abc$/,
      changeBody((body) => body.replace(/int64/, "int64: SELECT id FROM orders")),
    ),
  },
  {
    does: "writes errors as HTML",
    breaks: /trailing slash/,
    sabotage: answer(404, /^\/v1\/verify$/, (found) => {
      found.headers.set("Content-Type", "text/html");
      found.body = "<h1>Not found</h1>";
      found.headers.delete("Content-Length");
    }),
  },
  {
    does: "does not repeat X-Request-Id",
    breaks: /healthz/,
    sabotage: request((_, headers) => headers.delete("X-Request-Id")),
  },
  // Browsers
  {
    does: "allows scripts of every origin to send requests",
    breaks: /not listed may not call/,
    sabotage: answers(
      () =>
        ({ headers }) =>
          headers.set("Access-Control-Allow-Origin", "*"),
    ),
  },
  {
    does: "does not allow listed origins to send If-None-Match",
    breaks: /listed origin may call/,
    sabotage: answer(204, LISTING, ({ headers }) =>
      replaceIn(headers, "Access-Control-Allow-Headers", /If-None-Match,/i, ""),
    ),
  },
  {
    does: "hides Retry-After from listed origins",
    breaks: /listed origin may call/,
    sabotage: answer(401, LISTING, ({ headers }) => {
      if (headers.has("Access-Control-Expose-Headers"))
        replaceIn(headers, "Access-Control-Expose-Headers", /Retry-After,/i, "");
    }),
  },
  // The list
  {
    does: "ignores If-None-Match",
    breaks: /ETag returns 304/,
    sabotage: request((_, headers) => headers.delete("If-None-Match")),
  },
  {
    does: "answers 304 to every If-None-Match",
    breaks: /another tag returns 200/,
    sabotage: request((_, headers) => {
      if (headers.has("If-None-Match")) headers.set("If-None-Match", "*");
    }),
  },
  {
    does: "leaves the ETag out of a 304",
    breaks: /ETag returns 304/,
    sabotage: answer(304, LISTING, ({ headers }) => headers.delete("ETag")),
  },
  {
    does: "sends a weak ETag",
    breaks: /one JSON array/,
    sabotage: answer(200, LISTING, ({ headers }) => replaceIn(headers, "ETag", /^/, "W/")),
  },
  {
    does: "allows caches to store the list",
    breaks: /one JSON array/,
    sabotage: answer(200, LISTING, ({ headers }) => headers.set("Cache-Control", "max-age=60")),
  },
  {
    does: "ends the list before the closing bracket",
    breaks: /one JSON array/,
    sabotage: answer(
      200,
      LISTING,
      changeBody((body) => body.slice(0, -1)),
    ),
  },
  {
    does: "lists in descending order",
    breaks: /one JSON array/,
    sabotage: answer(
      200,
      LISTING,
      changeBody(
        (body) =>
          `[${body
            .slice(1, -1)
            .split(/(?<=\}),/)
            .toReversed()
            .join(",")}]`,
      ),
    ),
  },
  {
    does: "rounds integers as JSON.parse does",
    breaks: /int64 in plain decimals/,
    sabotage: answer(
      200,
      LISTING,
      changeBody((body) => JSON.stringify(JSON.parse(body))),
    ),
  },
  {
    does: "answers HEAD with 503",
    breaks: /another tag returns 200/,
    sabotage: answers(() => (found, { method, path }) => {
      if (method === "HEAD" && path === LIST) becomeError(found, 503, "service_unavailable");
    }),
  },
  {
    does: "honours query parameters",
    breaks: /Query parameters/,
    sabotage: (send) => (url, init) =>
      new URL(url).searchParams.has("page")
        ? send(url.replace(LIST, "/v1/pages"), init)
        : send(url, init),
  },
  // Paths and methods
  {
    does: "serves paths with a trailing slash",
    breaks: /new id|trailing slash/,
    sabotage: request((url) => {
      url.pathname = url.pathname.replace(/(?<=.)\/$/, "");
    }),
  },
  {
    does: "accepts the id 007 as 7",
    breaks: /no int64/,
    sabotage: request((url) => {
      url.pathname = url.pathname.replace("/007", "/7");
    }),
  },
  {
    does: "names the wrong methods in Allow",
    breaks: /405 with Allow/,
    sabotage: answer(405, ORDER, ({ headers }) => headers.set("Allow", "GET, HEAD")),
  },
  // Outside /v1
  {
    does: "reveals its version at /healthz",
    breaks: /healthz/,
    sabotage: answer(
      200,
      /^\/healthz$/,
      changeBody((body) => body.replace("}", ',"version":"1"}')),
    ),
  },
  {
    does: "allows caches to store /healthz",
    breaks: /healthz/,
    sabotage: answer(200, /^\/healthz$/, ({ headers }) => headers.delete("Cache-Control")),
  },
  {
    does: "reports an unavailable part at /healthz",
    breaks: /healthz/,
    sabotage: answer(200, /^\/healthz$/, (found) => {
      found.status = 503;
      found.body = found.body.replace('"ok"', '"unavailable"');
      found.headers.delete("Content-Length");
    }),
  },
  {
    does: "was deployed without its static files",
    breaks: /reference page/,
    sabotage: answer(200, /^\/openapi\.json$/, (found) => becomeError(found, 404, "not_found")),
  },
  // Orders
  {
    does: "changes a digit of an order",
    scope: "orders",
    breaks: /digit for digit/,
    sabotage: answer(
      200,
      LISTING,
      changeBody((body) =>
        body.replaceAll('"petId":9223372036854775807', '"petId":9223372036854775806'),
      ),
    ),
  },
  {
    does: "answers every cancellation of an order with 204",
    scope: "orders",
    breaks: /one returns 204/,
    sabotage: answer(404, OWN_ORDER, (found) => {
      found.status = 204;
      found.body = "";
      found.headers.delete("Content-Type");
      found.headers.delete("Content-Length");
    }),
  },
  {
    does: "lists a cancelled order",
    scope: "orders",
    breaks: /lacks the order/,
    sabotage: answers(() => {
      let stale: string | undefined;
      return (found, { path }) => {
        if (path !== LIST || found.status !== 200 || found.body === "") return;
        if (/"id":-[6-9]\d{18},"petId":9223372036854775807/.test(found.body)) stale = found.body;
        else changeBody((body) => stale ?? body)(found);
      };
    }),
  },
  {
    does: "answers 404 for a shipped order",
    scope: "orders",
    breaks: /shipped order/,
    sabotage: answer(409, ORDER, (found) => becomeError(found, 404, "order_not_found")),
  },
  // Keys
  {
    does: "accepts a revoked key",
    scope: "revocation",
    breaks: /revoked key/,
    sabotage: answers(() => {
      const valid = new Set<string>();
      return (found, { headers }) => {
        const sent = headers.get("Authorization") ?? "";
        if (found.status === 304) valid.add(sent);
        if (found.status === 401 && valid.has(sent)) becomeUnchanged(found);
      };
    }),
  },
];
