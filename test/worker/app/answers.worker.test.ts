import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { stopClock } from "../../support/clock.ts";
import { brokenDatabase, brokenLimiters, fail } from "../../support/faults.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, type Send, send, startService } from "../../support/service.ts";
import { eventLines, events } from "../../support/written-lines.ts";

const REFERENCE = '</openapi.json>; rel="service-desc", </>; rel="service-doc"';
const QUOTA = "/v1/quota";
const JSON_TYPE = { "content-type": "application/json" };
const CACHED = {
  "cache-control": "private, no-cache",
  etag: expect.stringMatching(/^"[0-9a-f]{32}"$/),
};

const APP = "https://app.example";
const ORIGINS = { CORS_ORIGINS: `http://localhost:5173, ${APP}` };
const FOR_APP = {
  "access-control-allow-origin": APP,
  "access-control-expose-headers":
    "X-RateLimit-Limit,X-RateLimit-Remaining,X-RateLimit-Reset,RateLimit-Policy,RateLimit,Retry-After," +
    "Allow,ETag,Link,WWW-Authenticate,X-Request-Id,Deprecation,Sunset,Strict-Transport-Security",
  vary: "Origin",
};
const PREFLIGHT = { Origin: APP, "Access-Control-Request-Method": "DELETE" };

/** The request id in the example of a 500. */
const REQUEST_ID = "5326b8b8-ae4f-4a2d-b4e5-b61b76a5b63f";

const failing = (message: string) => startService(ORIGINS, brokenDatabase("ORDERS", fail(message)));
/** Sends a second request of a key that may send one, to an isolate that does not know the first. */
const refusing: Send = async (path, options) => {
  const { key } = await createEnterpriseKey(1, 1_000);
  await send("/v1/none", { key });
  return failing("Lost.")(path, { ...options, key });
};
const headersOf = ({ headers }: Response) => Object.fromEntries(headers);
const quotaHeaders = (
  [limit, remaining, reset]: readonly number[],
  minute = [60, 59, 60],
  day = [1_000, 999, 86_400],
) => ({
  "ratelimit-policy": `"minute";q=${minute[0]};w=60, "day";q=${day[0]};w=86400`,
  ratelimit: `"minute";r=${minute[1]};t=${minute[2]}, "day";r=${day[1]};t=${day[2]}`,
  "x-ratelimit-limit": String(limit),
  "x-ratelimit-remaining": String(remaining),
  "x-ratelimit-reset": String(reset),
});

test("every answer has exactly these headers and the body of the documented example; HEAD has the same headers without the body, and a listed origin may read all of them", async () => {
  await placeOrder(8n);
  await placeOrder(1_004n, { status: "shipped" });
  const nowSeconds = Math.ceil(stopClock() / 1_000);
  const ends = nowSeconds + 60;
  const whole = quotaHeaders([60, 60, ends], [60, 60, 60], [1_000, 1_000, 86_400]);
  const full = { ...quotaHeaders([1, 0, ends], [1, 0, 60]), "retry-after": "60" };
  const closed = quotaHeaders([1_000, 0, nowSeconds + 1], [60, 0, 1], [1_000, 0, 1]);
  const silent = startService(ORIGINS, brokenLimiters());
  const service = startService(ORIGINS);
  const cases: [number, string, method: string, path: string, headers: object, to?: Send][] = [
    [200, "", "GET", LIST, { ...CACHED, ...JSON_TYPE }],
    [200, "", "GET", QUOTA, { ...whole, "cache-control": "no-store", ...JSON_TYPE }],
    [304, "", "GET", LIST, CACHED],
    [401, "unauthorized", "GET", LIST, { "www-authenticate": 'Bearer realm="store-orders"' }],
    [404, "not_found", "GET", "/v1/store", {}],
    [404, "order_not_found", "DELETE", `${LIST}/42`, {}],
    [405, "method_not_allowed", "POST", LIST, { allow: "GET, HEAD" }],
    [405, "method_not_allowed", "GET", `${LIST}/8`, { allow: "DELETE" }],
    [409, "order_already_shipped", "DELETE", `${LIST}/1004`, {}],
    [405, "method_not_allowed", "POST", QUOTA, { allow: "GET, HEAD" }],
    [412, "precondition_failed", "GET", LIST, {}],
    [412, "precondition_failed", "GET", QUOTA, whole],
    [429, "rate_limit_exceeded", "GET", LIST, full, refusing],
    [429, "rate_limit_exceeded", "DELETE", `${LIST}/8`, full, refusing],
    [500, "internal_error", "GET", LIST, {}, failing("no such table: orders")],
    [503, "service_unavailable", "GET", LIST, { "retry-after": "5" }, failing("Lost.")],
    [404, "not_found", "GET", "/v1/store", {}, silent],
    [503, "service_unavailable", "GET", QUOTA, { ...closed, "retry-after": "1" }, silent],
    [204, "", "DELETE", `${LIST}/8`, {}],
  ];
  const asked = { "X-Request-Id": REQUEST_ID, "X-Version": env.VERSION.id };
  let address = 0;
  for (const [status, code, method, path, headers, to = service] of cases) {
    const request = async (withMethod: string, others = {}) => {
      const { key } = await createApiKey();
      const condition =
        { 200: "If-Match", 304: "If-None-Match", 412: "If-Match" }[status] ?? "X-Noise";
      const sender = status === 401 ? { address: `192.0.2.${(address += 1)}` } : { key };
      const sent = { ...asked, [condition]: status < 400 ? "*" : '"none"', ...others };
      return to(path, { ...sender, method: withMethod, headers: sent });
    };
    const response = await request(method);
    expect(response.status, `${method} ${path}`).toBe(status);
    const link = code === "" ? REFERENCE : `${REFERENCE}, </#${code}>; rel="help"`;
    const type = code === "" ? {} : JSON_TYPE;
    const hsts = { "strict-transport-security": "max-age=31536000" };
    const own = { "x-request-id": REQUEST_ID, "x-version": env.VERSION.id, link, ...hsts };
    const all = { ...own, ...quotaHeaders([60, 59, ends]), ...type, ...headers };
    expect(headersOf(response), `${status} ${code}`).toStrictEqual(all);
    if (code !== "") {
      const message = await expectError(response, status, code);
      const example = `"message": ${JSON.stringify(message)}`;
      if (to !== refusing && path !== QUOTA) expect(openApiDocument()).toContain(example);
    } else if (path !== QUOTA) {
      expect(await response.text()).toBe(status === 200 ? '[{"id":8},{"id":1004}]' : "");
    }
    if (method !== "GET") continue;
    const head = await request("HEAD");
    expect([head.status, await head.text()]).toStrictEqual([status, ""]);
    expect(headersOf(head), `HEAD: ${status} ${code}`).toStrictEqual(headersOf(response));
    const forApp = { ...headersOf(response), ...FOR_APP };
    expect(headersOf(await request("GET", { Origin: APP }))).toStrictEqual(forApp);
  }
  expect(await storedOrder(1_004n)).toMatchObject({ status: "shipped" });
  const refused = Array(4).fill({ event: "quota_low", limit: 1, remaining: 0 });
  const failures = [...Array(3).fill("internal_error"), "orders_database_unavailable"];
  failures.push("fallback_limiter_on", "quota_unavailable");
  const logged = failures.map((event) => ({ event, requestId: REQUEST_ID }));
  expect(eventLines()).toMatchObject([...refused, ...logged]);
});

test("a preflight of a listed origin needs no key, is not counted, and calls no Durable Object and no database", async () => {
  const untouchable = new Proxy({} as never, { get: () => expect.fail("A binding was used.") });
  const bindings = { ORDERS: untouchable, KEYS: untouchable, RATE_LIMITER: untouchable };
  const service = startService(ORIGINS, bindings);
  for (let times = 0; times < 2; times += 1) {
    const response = await service(`${LIST}/1`, { method: "OPTIONS", headers: PREFLIGHT });
    expect(quotaOf(response)).toMatchObject({ remaining: 60, day: { remaining: 1_000 } });
    expect([response.status, await response.text()]).toStrictEqual([204, ""]);
    expect(headersOf(response)).toMatchObject({
      "access-control-allow-origin": APP,
      "access-control-allow-methods": "GET,HEAD,DELETE",
      "access-control-max-age": "86400",
      "access-control-allow-headers": "Authorization,If-Match,If-None-Match,X-Request-Id",
    });
  }
});

test.each<[vars: Record<string, string>, method: string, headers: Record<string, string>]>([
  [{}, "OPTIONS", PREFLIGHT],
  [{}, "GET", { Origin: APP }],
  [ORIGINS, "OPTIONS", { ...PREFLIGHT, Origin: `${APP}.evil.example` }],
  [ORIGINS, "GET", { Origin: "null" }],
  [ORIGINS, "GET", { Origin: `${APP}:8443` }],
  // Without `Access-Control-Request-Method`, this is no preflight.
  [ORIGINS, "OPTIONS", { Origin: APP }],
])("with %j, %s needs a key, is counted and has no CORS headers: %j", async (...request) => {
  const [vars, method, headers] = request;
  const response = await startService(vars)(LIST, { method, headers });
  expect([response.status, quotaOf(response).remaining]).toStrictEqual([401, 59]);
  expect(Object.keys(headersOf(response)).join()).not.toMatch(/access-control|vary/);
});

test("the end of this API version is announced under /v1 if it is configured", async () => {
  for (const [vars, Deprecation, Sunset] of [
    [{ V1_DEPRECATED_AT: "2028-01-01T00:00:00.500Z" }, "@1830297600", null],
    [{ V1_SUNSET_AT: "2028-07-01T12:30:00Z" }, null, "Sat, 01 Jul 2028 12:30:00 GMT"],
  ] as const) {
    const { headers } = await startService(vars)(LIST);
    expect([headers.get("Deprecation"), headers.get("Sunset")]).toEqual([Deprecation, Sunset]);
  }
});

test("a path that names nothing is 404 with a key, and 401 without one, like every path under /v1; paths are percent-decoded once", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  const unknown = ["/v1", "/v1/pets/1", `${LIST}/`, `${LIST}/1/`, "/v1//store/orders"];
  unknown.push(`${QUOTA}/`, "/v1/Store/Orders", "/v1/store/%256Frders", "/v1/%zz");
  // No int64 in canonical decimal, so it names no order.
  const ids = ["abc", "01", "9223372036854775808", "1%0A", "%2531", "1%2F1", "%E0%A4%A"];
  const ofOrders = ids.map((id) => `${LIST}/${id}`);
  for (const path of [...unknown, ...ofOrders, QUOTA, LIST, `${LIST}/1`]) {
    await expectError(await send(path, { method: "DELETE" }), 401, "unauthorized");
  }
  for (const path of unknown) await expectError(await send(path, { key }), 404, "not_found");
  for (const path of ofOrders) {
    const response = await send(path, { method: "DELETE", key });
    expect(await expectError(response, 404, "order_not_found"), path).toContain("int64");
  }
  for (const path of ["/", "/v11/store/orders", "/store/orders", "/%zz"]) {
    await expectError(await send(path), 404, "not_found");
  }
  expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
  expect((await send("/v1/%73tore/%6frders/%31", { method: "DELETE", key })).status).toBe(204);
});

test("query parameters, a request body and other headers are ignored, even long ones", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  const query = "?page=2&limit=0&status=shipped&%zz&id=%00&=";
  const headers = { "X-Http-Method-Override": "DELETE", "X-Noise": "n".repeat(60_000) };
  expect(await (await send(LIST + query, { key, headers })).text()).toBe('[{"id":1}]');
  const encoded = { "Content-Type": "application/json", "Content-Encoding": "gzip" };
  const body = { method: "DELETE", key, headers: encoded, body: '{"id": 2, ' };
  expect((await send(`${LIST}/1${query}`, body)).status).toBe(204);
});

// `startService` compares every response with the OpenAPI document.
test("any request receives a documented response, and never 500", async () => {
  const service = startService();
  const { key } = await createEnterpriseKey(1_000_000, 1_000_000);
  await placeOrder(4n, { status: "shipped" });
  const odd = ".. 4 %zz %00 %0d%0aX-Evil:1 %2F __proto__ :orderId ?# '".split(" ");
  const part = fc.oneof(fc.constantFrom(...odd), fc.string({ unit: "grapheme" }));
  const path = fc.array(part).map((parts) => [LIST, ...parts].join("/"));
  const method = fc.constantFrom("GET", "HEAD", "DELETE", "DELETE", "OPTIONS", "PROPFIND");
  const names = fc.constantFrom("If-None-Match", "If-Match", "Range", "Origin", "X-Request-Id");
  // Only printable ASCII. For any other character, the runtime prints a warning.
  const headers = fc.dictionary(names, fc.stringMatching(/^[ -~]{0,60}$/));
  const property = fc.asyncProperty(path, method, headers, async (...[to, by, others]) => {
    const response = await service(to, { key, method: by, headers: others });
    expect(response.headers.has("X-Evil")).toBe(false);
    await response.text();
  });
  await fc.assert(property, { numRuns: 300 });
  expect(events()).toStrictEqual([]);
});
