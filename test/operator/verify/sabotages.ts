/** `before` has the texts of the earlier responses to such requests. */
type Change = readonly [part: RegExp, by: string] | ((text: string, before: string[]) => string);
export type Send = (url: string, init: RequestInit) => Promise<Response>;
export type Sabotage = (send: Send) => Send;

const edit = (text: string, change: Change, before: string[] = []) =>
  typeof change === "function" ? change(text, before) : text.replace(...change);

/** Changes responses, as text: the status, a line for each header, an empty line and the body. */
export function answer(target: RegExp, change: Change): Sabotage {
  return (send) => {
    const before: string[] = [];
    return async (url, init) => {
      const response = await send(url, init);
      // Such as `GET /healthz`, a line for each header of the request, and `=> 200`.
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

/** Changes only some of the responses, by default the first. */
export const only =
  (change: Change, from = 0, count = 1): Change =>
  (text, { length }) =>
    length >= from && length < from + count ? edit(text, change) : text;

/** Turns a response into a documented 204, 304 or error with the same rate limits, id and version. */
export function become(status: number, code = "", more = "vary: *") {
  const links = '</openapi.json>; rel="service-desc", </>; rel="service-doc"';
  return (text: string) => {
    const limits = text.match(/^(?:x-[rv]e|.*ratelimit).*$/gm)!;
    const kept = [status, ...limits, `link: ${links}`].join("\n");
    const body = JSON.stringify({ code, message: "No.", status });
    return code === ""
      ? `${kept}\netag: "0f"\ncache-control: private, no-cache\n\n`
      : `${kept}, </#${code}>; rel="help"\n${more}\ncontent-type: application/json\n\n${body}`;
  };
}

/** Adds to all numbers that match. */
export const add = (difference: number, numbers: RegExp) => (text: string) =>
  text.replace(numbers, (each) => `${+each + difference}`);

const noContent: Change = (text) => edit(edit(text, become(204)), [/etag.*\ncache.*\n/, ""]);
const challenge = (by: string): Change => [/(?<=www-authenticate: ).*/, by];
const REALM = 'Bearer realm="store-orders"';
export const INVALID = `${REALM}, error="invalid_token"`;
const OTHER_LIMIT: Change = [/(?<="minute";q=|ratelimit-limit: )60/g, "61"];

const DAY_LEFT = /(?<="day";r=|"day",.*"remaining":)\d+/g;
const KEYLESS = /orders\n(?!.*(?:auth|cookie|origin)).*=> 401/s;
/** The earlier list that has the order of the verification. */
const listIn = (before: string[]) => /\[{"id":-.*/.exec(before.join("\n"))?.[0] ?? "$&";
const LISTED = /GET .*orders\n.*=> 200/s;

export const OTHER_METHOD: [RegExp, Change] = [/POST.*orders\n/s, [/GET, HEAD/, "DELETE"]];

/** The one promise that each sabotage breaks, by the beginning of its title. */
export const SABOTAGES: readonly [promise: string, RegExp, Change, reason?: string][] = [
  ["Of 200", /ord_.*=> 429/s, only(become(304))],
  ["Of 200", /ord_.*=> 304/s, only(OTHER_LIMIT, 5)],
  ["Of 200", /ord_.*=> 304/s, only(add(1, /(?<="minute";r=|remaining: )\d+/g), 5)],
  ["A request over", /=> 429/, only([/(?<=retry-after: )\d+/, "1"])],
  ["A request over", /=> 429/, only([/"rate_limit_exceeded"/, '"api_key_banned"'])],
  ["A request over", /=> 429/, only([/(?<="day";r=)\d+/, "939"])],
  ["A request over", /ord_.*=> 304/s, only(become(412, "precondition_failed"), 60)],
  ["A cancellation whose", /orders\/-9.*if-m.*=> 412/s, noContent],
  ["A cancellation whose", /orders\/-9.*if-n.*=> 412/s, noContent],
  ["An order is listed", /=> 200/, [/"petId":92233\d+/, '"petId":9223372036854775806']],
  ["Of simultaneous", /orders\/-9.*=> 404/s, noContent],
  ["Of simultaneous", /orders\/-9.*=> 404/s, only(become(409, "order_already_shipped"))],
  ["Of simultaneous", /orders\/-9.*=> 204/s, become(404, "order_not_found")],
  ["A list that begins", /GET .*orders\n.*if-none-match: "[^o].*=> 200/s, become(304)],
  ["A list that begins", LISTED, (text, before) => edit(text, [/\[.*/, listIn(before)])],
  ["The list is one JSON", LISTED, [/(\[)({"id":[^}]*})/, "$1$2,$2"]],
  ["Cancelling a shipped", /=> 409/, only(become(404, "order_not_found"), 1)],
  ["GET /healthz", /\/healthz/, [/no-store/, "max-age=5"]],
  ["GET /healthz", /\/healthz/, [/\n\n/, "\nx-ratelimit-limit: 60\n\n"]],
  ["GET /healthz", /\/healthz/, [/(?<=x-request-id: )/, "1"]],
  ["The key is accepted", /sord_/, only(become(412, "precondition_failed"))],
  ["The reference page", /GET \/\n/, [/<!doctype html>/, ""]],
  ["openapi.json", /GET \/openapi.json/, [/^200/, "404"]],
  ["A path outside /v1", /GET \/x\n/, [/\n\n/, "\nx-ratelimit-limit: 60\n\n"]],
  ["Without a key", KEYLESS, [/(?<=limit-reset: \d+)\n/, "000\n"]],
  ["Without a key", KEYLESS, [/(?<=limit-reset: )1/, ""]],
  ["An empty Authorization", /orders\n.*authorization: \n/s, challenge(INVALID)],
  ["A scheme other than Bearer", /Basic/, become(412, "precondition_failed")],
  ["Bearer without a token", /: Bearer\n/, challenge(INVALID)],
  ["Two tokens", /Bearer a b/, challenge(REALM)],
  ["A mistyped key", /Bearer sord_a\n/, OTHER_LIMIT],
  ["An unknown key", /orders\n.*Bearer sord_\w{9}(?!.*if-none).*=> 401/s, challenge(REALM)],
  ["A key in the query string", /\?key=sord_\w+&api_key=sord_/, become(304)],
  ["A key in the query string", /cookie: key=sord_\w+; .*=sord_.*x-api-key: sord_/s, become(304)],
  ["An unknown path under", /\/v1\/verify.*=> 401/s, become(404, "not_found")],
  ["An origin", /OPTIONS/, [/\n/, "\naccess-control-allow-origin: *\n"]],
  ["Scripts of an origin", /GET.*origin: /s, [/\n/, "\naccess-control-allow-origin: *\n"]],
  ["The list is one", /=> 200/, [/({"id":1,.*}),({"id":2})/, "$2,$1"]],
  ["The list is one", /=> 200/, [/"id":2}/, '"id":2.0}']],
  ["If-None-Match with", /, W\//, become(412, "precondition_failed")],
  ["If-None-Match with", /HEAD/, [/(?<=limit-remaining: ).*/, "999"], "X-RateLimit-* is 60, 999, "],
  ["If-Match with another tag", /=> 412/, only(become(304))],
  ["Query parameters", /page=2/, become(404, "not_found"), "page=2 is answered 404 {"],
  ["The scheme's name", /bEARER/, [/[^]*/, "500\n\n<p>\n  sord_a"], "500 <p> sord_…: the header"],
  ["The response", /^(?![^]*x-request-id)[^]*=> 304/, [/(?<=x-request-id: ).*/, "1"]],
  ["An unknown path returns 404", /\/verify.*=> 404/s, only([/}$/, ',"trace":1}'])],
  ["A path with a trailing slash", /orders\/\n/, become(304)],
  ["An orderId", /\/007/, [/int64/, ""], "the body does not include int64"],
  ["An orderId", /abc/, [/int64/, "int64: SELECT id FROM orders"]],
  ["Any other method returns", ...OTHER_METHOD, "Allow is DELETE, not GET, HEAD"],
  ["Any other method of an order", /POST.*\/1\n/, [/DELETE/, "GET, HEAD"]],
  ["Each request counts once", /\/verify.*=> 404/s, [/(?<="day";r=)\d+/, "939"]],
  ["Looking at the quota", /quota.*=> 200/s, [/no-store/, "private, no-cache"]],
  ["Looking at the quota", /quota.*=> 200/s, [/(?<="day".*"remaining":)\d+/, "999"]],
  ["Looking at the quota", /quota/, only(become(429, "rate_limit_exceeded", "retry-after: 5"), 1)],
  ["Looking at the quota", /quota/, (text, before) => edit(text, add(-before.length, DAY_LEFT))],
  ["A revoked key", /if-none-match.*=> 401/s, only(become(304), 0, 16)],
];
