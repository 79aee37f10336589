import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import type { ErrorCode } from "../../../src/rules/error-codes.ts";
import { expectError } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { placeOrder } from "../../support/order-fixture.ts";
import { LIST, send, sendThroughRuntime, startService } from "../../support/service.ts";
import { eventLines } from "../../support/written-lines.ts";

const REFERENCE = '</openapi.json>; rel="service-desc", </>; rel="service-doc"';
const REQUEST_ID = { "X-Request-Id": "test-1" };
const CHALLENGE = { "www-authenticate": 'Bearer realm="store-orders"' };
const CACHED = {
  "cache-control": "private, no-cache",
  etag: expect.stringMatching(/^"[0-9a-f]{32}"$/),
};

const headersOf = ({ headers }: Response) => Object.fromEntries(headers);

function commonHeaders(code?: ErrorCode): Record<string, string> {
  if (code === undefined) return { link: REFERENCE, "x-request-id": "test-1" };
  const link = `${REFERENCE}, </#${code}>; rel="help"`;
  return { link, "content-type": "application/json", "x-request-id": "test-1" };
}

/** The headers of the response to a request that begins both windows of a key. */
function freshHeaders(nowMs: number, code?: ErrorCode): Record<string, string> {
  return {
    ...commonHeaders(code),
    "ratelimit-policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
    ratelimit: '"minute";r=59;t=60, "day";r=999;t=86400',
    "x-ratelimit-limit": "60",
    "x-ratelimit-remaining": "59",
    "x-ratelimit-reset": String(Math.ceil((nowMs + 60_000) / 1_000)),
  };
}

test.each<[status: number, method: string, path: string, headers: object, body: string]>([
  [200, "GET", LIST, { ...CACHED, "content-type": "application/json" }, '[{"id":7},{"id":8}]'],
  [304, "GET", LIST, CACHED, ""],
  [204, "DELETE", `${LIST}/7`, {}, ""],
])("%d %s %s has these headers and this body", async (status, method, path, headers, body) => {
  const { key } = await createApiKey();
  await placeOrder(7n);
  await placeOrder(8n);
  const nowMs = stopClock();
  const condition: Record<string, string> = status === 304 ? { "If-None-Match": "*" } : {};
  const response = await sendThroughRuntime(path, {
    method,
    key,
    headers: { ...REQUEST_ID, ...condition },
  });
  expect(response.status).toBe(status);
  expect(headersOf(response)).toStrictEqual({ ...freshHeaders(nowMs), ...headers });
  expect(await response.text()).toBe(body);
});

test.each<[number, ErrorCode, string, string, object, string]>([
  [404, "order_not_found", "DELETE", `${LIST}/9`, {}, "No order has the id 9"],
  [404, "not_found", "GET", "/v1/store", {}, "/v1/store"],
  [405, "method_not_allowed", "POST", LIST, { allow: "GET, HEAD" }, "Use GET or HEAD"],
  [405, "method_not_allowed", "GET", `${LIST}/7`, { allow: "DELETE" }, "Use DELETE"],
  [409, "order_already_shipped", "DELETE", `${LIST}/7`, {}, "Order 7"],
  [401, "unauthorized", "GET", LIST, CHALLENGE, "Authorization: Bearer"],
])("%d %s: %s %s", async (status, code, method, path, headers, message) => {
  const { key } = await createApiKey();
  await placeOrder(7n, { status: "shipped" });
  const nowMs = stopClock();
  const credentials = status === 401 ? {} : { key };
  const response = await send(path, { method, ...credentials, headers: REQUEST_ID });
  expect(headersOf(response)).toStrictEqual({ ...freshHeaders(nowMs, code), ...headers });
  expect(await expectError(response, status, code)).toContain(message);
  expect(await (await send(LIST, { key })).text()).toBe('[{"id":7}]');
});

test("429 states when the full window ends, and when the ban ends", async () => {
  const { key } = await createEnterpriseKey(1, 5);
  const nowMs = stopClock();
  const request = () => send(LIST, { key, headers: REQUEST_ID });
  const refused = (code: ErrorCode, seconds: number, quota: string, endMs: number) => ({
    ...commonHeaders(code),
    "ratelimit-policy": '"minute";q=1;w=60, "day";q=5;w=86400',
    ratelimit: quota,
    "x-ratelimit-limit": "1",
    "x-ratelimit-remaining": "0",
    "x-ratelimit-reset": String(Math.ceil((nowMs + endMs) / 1_000)),
    "retry-after": String(seconds),
  });
  await request();
  advanceClock(1_500);
  const full = await request();
  expect(headersOf(full)).toStrictEqual(
    refused("rate_limit_exceeded", 59, '"minute";r=0;t=59, "day";r=4;t=86399', 60_000),
  );
  expect(await expectError(full, 429, "rate_limit_exceeded")).toContain("Wait 59 seconds");
  advanceClock(29_000);
  for (let strike = 1; strike < 60; strike++) await request();
  const banned = await request();
  expect(headersOf(banned)).toStrictEqual(
    refused("api_key_banned", 60, '"minute";r=0;t=60, "day";r=0;t=60', 90_500),
  );
  expect(await expectError(banned, 429, "api_key_banned")).toContain("Wait 60 seconds");
  advanceClock(59_000);
  expect(await expectError(await request(), 429, "api_key_banned")).toContain("Wait 1 second b");
});

test("500 states the request id and is logged with the same id", async () => {
  const { key } = await createApiKey();
  await env.ORDERS.exec("DROP TABLE orders");
  const nowMs = stopClock();
  const response = await send(LIST, { key, headers: REQUEST_ID });
  expect(headersOf(response)).toStrictEqual(freshHeaders(nowMs, "internal_error"));
  expect(await expectError(response, 500, "internal_error")).toContain("test-1");
  expect(eventLines()).toMatchObject([{ event: "internal_error", requestId: "test-1" }]);
});

test("every response announces the end of this API version, if it is configured", async () => {
  const { key } = await createApiKey();
  const V1_DEPRECATED_AT = "2028-01-01T00:00:00.500Z";
  const vars = { V1_DEPRECATED_AT, V1_SUNSET_AT: "2028-07-01T12:30:00Z" };
  const [deprecation, sunset] = ["@1830297600", "Sat, 01 Jul 2028 12:30:00 GMT"];
  for (const [service, options, expected] of [
    [startService(vars), { key }, [deprecation, sunset]],
    [startService(vars), { key, headers: { "If-None-Match": "*" } }, [deprecation, sunset]],
    [startService(vars), {}, [deprecation, sunset]],
    [startService({ V1_SUNSET_AT: vars.V1_SUNSET_AT }), {}, [null, sunset]],
    [startService({ V1_DEPRECATED_AT }), {}, [deprecation, null]],
    [send, {}, [null, null]],
  ] as const) {
    const { headers } = await service(LIST, options);
    expect([headers.get("Deprecation"), headers.get("Sunset")]).toStrictEqual(expected);
  }
});
