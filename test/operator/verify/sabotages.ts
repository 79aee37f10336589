import type { Send } from "../../../src/operator/verify/service-promise.ts";

type Change = readonly [part: RegExp, by: string] | ((text: string, before: string[]) => string);
type Sabotage = (send: Send) => Send;

const edit = (text: string, change: Change, before: string[] = []) =>
  typeof change === "function" ? change(text, before) : text.replace(...change);

/**
 * Changes responses, as text: the status, a line for each header, an empty line and the body.
 *
 * @param target matches the request and `=> status`. `before` has the earlier such responses.
 */
function answer(target: RegExp, change: Change): Sabotage {
  return (send) => {
    const before: string[] = [];
    return async (url, init) => {
      const response = await send(url, init);
      if (!target.test(`${textOf(url, init)}\n=> ${response.status}`)) return response;
      const head = [response.status, ...lines(response.headers)].join("\n");
      const text = `${head}\n\n${await response.text()}`;
      const [newHead = "", body = ""] = edit(text, change, before).split(/\n\n([^]*)/);
      before.push(text);
      const [status, ...headers] = newHead.split("\n");
      const hasBody = !/204|304/.test(status ?? "") && init.method !== "HEAD";
      return new Response(hasBody ? body : null, {
        status: Number(status),
        headers: headers.map((line) => line.split(/: (.*)/).slice(0, 2) as [string, string]),
      });
    };
  };
}

const lines = (headers: Headers) => [...headers].map((pair) => pair.join(": "));
const textOf = (url: string, { method, headers }: RequestInit) =>
  [`${method} ${url.replace(/^\w+:..[^/]+/, "")}`, ...lines(new Headers(headers))].join("\n");

/** Changes only the first response. */
const once =
  (change: Change): Change =>
  (text, before) =>
    before.length === 0 ? edit(text, change) : text;

/** Turns a response into a 204, a 304 or an error with the same rate-limit headers. */
function become(status: number, code?: string): Change {
  return (text) => {
    const kept = text.match(/^(?:link|x-re|.*ratelimit).*$/gm)!.join("\n");
    if (code === undefined)
      return `${status}\n${kept}\netag: "0f"\ncache-control: private, no-cache\n\n`;
    return `${status}\n${kept}\ncontent-type: application/json\n\n${JSON.stringify({ code, message: "No.", status })}`;
  };
}

const noContent: Change = (text) => edit(edit(text, become(204)), [/etag.*\ncache.*\n/, ""]);
const challenge = (by: string): Change => [/(?<=www-authenticate: ).*/, by];
const INVALID = 'Bearer realm="store-orders", error="invalid_token"';

/** Each sabotage, with the beginning of the title of the one promise that it breaks. */
export const SABOTAGES: readonly (readonly [promise: string, Sabotage])[] = [
  ["Of 200", answer(/ord_.*=> 429/s, once(become(304)))],
  [
    "Of 200",
    answer(/ord_.*=> 304/s, (text, before) => {
      if (before.length !== 1) return text;
      const [quota = ""] = /ratelimit: .*/.exec(before[0]!) ?? [];
      const [left = ""] = /x-ratelimit-remaining: .*/.exec(before[0]!) ?? [];
      return text.replace(/ratelimit: .*/, quota).replace(/x-ratelimit-remaining: .*/, left);
    }),
  ],
  [
    "Of 200",
    answer(/ord_.*=> 304/s, (text) =>
      text.replace("q=60;", "q=61;").replace("limit-limit: 60", "limit-limit: 61"),
    ),
  ],
  [
    "A request over",
    answer(
      /=> 429/,
      once((text) => text.replace(/(?<=retry-after: )\d+/, (seconds) => `${Number(seconds) - 1}`)),
    ),
  ],
  ["A request over", answer(/=> 429/, once([/"rate_limit_exceeded"/, '"api_key_banned"']))],
  [
    "A request over",
    answer(/=> 429/, (text, before) =>
      text.replace(/(?<="day";r=)\d+/, (left) => `${Number(left) - before.length - 1}`),
    ),
  ],
  [
    "A request over",
    answer(/ord_.*=> 304/s, (text, before) =>
      before.length === 60 ? edit(text, become(412, "precondition_failed")) : text,
    ),
  ],
  ["A cancellation whose", answer(/orders\/-9.*if-m.*=> 412/s, noContent)],
  ["A cancellation whose", answer(/orders\/-9.*if-n.*=> 412/s, noContent)],
  [
    "An order is listed",
    answer(/=> 200/, [/"petId":922337203685477580\d/, '"petId":9223372036854775806']),
  ],
  ["Of simultaneous", answer(/orders\/-9.*=> 404/s, noContent)],
  [
    "A list that begins",
    answer(/GET .*=> 200/s, (text, before) =>
      text.replace(/\[.*/, (body) => /\[{"id":-.*/.exec(before.join("\n"))?.[0] ?? body),
    ),
  ],
  ["Cancelling a shipped", answer(/=> 409/, once(become(404, "order_not_found")))],
  [
    "Cancelling a shipped",
    answer(/=> 409/, (text, before) =>
      before.length === 1 ? edit(text, become(404, "order_not_found")) : text,
    ),
  ],
  ["GET /healthz", answer(/\/healthz/, [/no-store/, "max-age=5"])],
  ["GET /healthz", answer(/\/healthz/, [/(?<=x-request-id: )/, "1"])],
  ["The key is accepted", answer(/sord_/, once(become(412, "precondition_failed")))],
  ["The reference page", answer(/GET \/\n/, [/<!doctype html>/, ""])],
  ["openapi.json", answer(/GET \/openapi.json/, [/^200/, "404"])],
  ["A path outside /v1", answer(/GET \/x\n/, [/\n\n/, "\nx-ratelimit-limit: 60\n\n"])],
  [
    "Without a key",
    answer(/orders\n(?!.*(?:auth|cookie|origin)).*=> 401/s, [/(?<=limit-reset: \d+)\n/, "000\n"]),
  ],
  ["An empty Authorization", answer(/orders\n.*authorization: \n/s, challenge(INVALID))],
  ["A scheme other than Bearer", answer(/Basic/, become(412, "precondition_failed"))],
  ["Bearer without a token", answer(/: Bearer\n/, challenge(INVALID))],
  ["Two tokens", answer(/Bearer a b/, challenge('Bearer realm="store-orders"'))],
  ["A mistyped key", answer(/Bearer sord_a\n/, [/60;w=60/, "61;w=60"])],
  [
    "An unknown key",
    answer(/orders\n.*Bearer sord_\w{9}(?!.*if-none).*=> 401/s, challenge("Bearer")),
  ],
  ["A key in the query string", answer(/api_key=/, become(304))],
  ["An unknown path under", answer(/\/v1\/verify.*=> 401/s, become(404, "not_found"))],
  ["An origin", answer(/OPTIONS/, [/\n/, "\naccess-control-allow-origin: *\n"])],
  ["Scripts of an origin", answer(/GET.*origin: /s, [/\n/, "\naccess-control-allow-origin: *\n"])],
  ["The list is one", answer(/=> 200/, [/({"id":1,.*}),({"id":2})/, "$2,$1"])],
  ["The list is one", answer(/=> 200/, [/"id":2}/, '"id":2.0}'])],
  ["If-None-Match with", answer(/, W\//, become(412, "precondition_failed"))],
  ["If-None-Match with", answer(/HEAD/, become(304))],
  ["If-None-Match with", answer(/HEAD/, [/(?<=limit-limit: ).*/, "1000"])],
  ["If-None-Match with", answer(/HEAD/, [/(?<=limit-remaining: ).*/, "999"])],
  ["If-Match with another tag", answer(/=> 412/, once(become(304)))],
  ["Query parameters", answer(/page=2/, become(404, "not_found"))],
  ["The scheme's name", answer(/bEARER/, become(401, "unauthorized"))],
  ["The response", answer(/^(?![^]*x-request-id)[^]*=> 304/, [/(?<=x-request-id: ).*/, "1"])],
  ["An unknown path returns 404", answer(/\/verify.*=> 404/s, once([/}$/, ',"trace":1}']))],
  ["A path with a trailing slash", answer(/orders\/\n/, become(304))],
  ["An orderId", answer(/\/007/, [/int64/, ""])],
  ["An orderId", answer(/abc/, [/int64/, "int64: SELECT id FROM orders"])],
  ["Any other method returns", answer(/POST.*orders\n/s, [/GET, HEAD/, "DELETE"])],
  ["Any other method of an order", answer(/POST.*\/1\n/, [/DELETE/, "GET, HEAD"])],
  [
    "Each request counts once",
    answer(/=> /, (text, before) => {
      const uncounted = [...before, text].filter((each) => each.includes('"not_found"')).length;
      const more = (left: string) => `${Number(left) + uncounted}`;
      return text.replace(/(?<=limit-remaining: )\d+/, more).replaceAll(/(?<=r=)\d+/g, more);
    }),
  ],
  ["A revoked key", answer(/if-none-match.*=> 401/s, become(304))],
];
