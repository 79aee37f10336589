import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import type { ErrorCode } from "../../../src/worker/errors.ts";
import { expectError } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { unreachableDatabase } from "../../support/database-double.ts";
import { placeOrder } from "../../support/order-fixture.ts";
import { send, sendThroughRuntime, startService } from "../../support/service.ts";

const ETAG = /^"[0-9a-f]{32}"$/;

const REFERENCE = '</openapi.json>; rel="service-desc", </>; rel="service-doc"';

/**
 * Returns the expected `Link` header of a response. An error also links to the section of the
 * reference page about its error code.
 */
function links(code?: ErrorCode): { readonly link: string } {
  return { link: code === undefined ? REFERENCE : `${REFERENCE}, </#${code}>; rel="help"` };
}

/**
 * Returns all expected headers of a response whose request is the first in the key's minute and day
 * windows.
 *
 * @param nowMs the time of the request in Unix milliseconds.
 */
function freshHeaders(nowMs: number, code?: ErrorCode): Record<string, string> {
  return {
    ...links(code),
    "ratelimit-policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
    ratelimit: '"minute";r=59;t=60, "day";r=999;t=86400',
    "x-ratelimit-limit": "60",
    "x-ratelimit-remaining": "59",
    "x-ratelimit-reset": String(Math.ceil((nowMs + 60_000) / 1_000)),
    "x-request-id": "test-1",
  };
}

const REQUEST_ID = { "X-Request-Id": "test-1" };

function headersOf({ headers }: Response): Record<string, string> {
  return Object.fromEntries(headers);
}

test("200 has a JSON array, an entity tag and the rate-limit headers", async () => {
  const { key } = await createApiKey();
  await placeOrder(7n, { petId: 3n, quantity: 2n, complete: false });
  const nowMs = stopClock();
  const response = await sendThroughRuntime("/v1/store/orders", { key, headers: REQUEST_ID });
  expect(response.status).toBe(200);
  expect(headersOf(response)).toStrictEqual({
    ...freshHeaders(nowMs),
    "content-type": "application/json",
    "cache-control": "private, no-cache",
    etag: expect.stringMatching(ETAG),
  });
  expect(await response.text()).toBe('[{"id":7,"petId":3,"quantity":2,"complete":false}]');
});

test("204 has no body", async () => {
  const { key } = await createApiKey();
  await placeOrder(7n);
  const nowMs = stopClock();
  const response = await send("/v1/store/orders/7", { method: "DELETE", key, headers: REQUEST_ID });
  expect(response.status).toBe(204);
  expect(headersOf(response)).toStrictEqual(freshHeaders(nowMs));
  expect(await response.text()).toBe("");
});

test("304 has the entity tag and no body, and counts against the limits", async () => {
  const { key } = await createApiKey();
  const nowMs = stopClock();
  const response = await send("/v1/store/orders", {
    key,
    headers: { ...REQUEST_ID, "If-None-Match": "*" },
  });
  expect(response.status).toBe(304);
  expect(headersOf(response)).toStrictEqual({
    ...freshHeaders(nowMs),
    "cache-control": "private, no-cache",
    etag: expect.stringMatching(ETAG),
  });
  expect(await response.text()).toBe("");
});

test("401 has a challenge", async () => {
  const nowMs = stopClock();
  const response = await send("/v1/store/orders", { headers: REQUEST_ID });
  expect(headersOf(response)).toStrictEqual({
    ...freshHeaders(nowMs, "unauthorized"),
    "content-type": "application/json",
    "www-authenticate": 'Bearer realm="store-orders"',
  });
  expect(await expectError(response, 401, "unauthorized")).toContain("Authorization: Bearer");
});

test.each([
  ["order_not_found", "DELETE", "/v1/store/orders/7"],
  ["not_found", "GET", "/v1/store"],
] as const)("404 %s has no additional headers", async (code, method, path) => {
  const { key } = await createApiKey();
  const nowMs = stopClock();
  const response = await send(path, { method, key, headers: REQUEST_ID });
  expect(headersOf(response)).toStrictEqual({
    ...freshHeaders(nowMs, code),
    "content-type": "application/json",
  });
  await expectError(response, 404, code);
});

test("405 lists the allowed methods", async () => {
  const { key } = await createApiKey();
  const nowMs = stopClock();
  const response = await send("/v1/store/orders", { method: "POST", key, headers: REQUEST_ID });
  expect(headersOf(response)).toStrictEqual({
    ...freshHeaders(nowMs, "method_not_allowed"),
    "content-type": "application/json",
    allow: "GET, HEAD",
  });
  expect(await expectError(response, 405, "method_not_allowed")).toContain("GET or HEAD");
});

test("409 leaves the shipped order unchanged", async () => {
  const { key } = await createApiKey();
  await placeOrder(7n, { status: "shipped" });
  const nowMs = stopClock();
  const response = await send("/v1/store/orders/7", { method: "DELETE", key, headers: REQUEST_ID });
  expect(headersOf(response)).toStrictEqual({
    ...freshHeaders(nowMs, "order_already_shipped"),
    "content-type": "application/json",
  });
  expect(await expectError(response, 409, "order_already_shipped")).toContain("Order 7");
  expect(await (await send("/v1/store/orders", { key })).text()).toBe('[{"id":7}]');
});

test("429 rate_limit_exceeded states when the full window ends", async () => {
  const { key } = await createEnterpriseKey(1, 5);
  const nowMs = stopClock();
  await send("/v1/store/orders", { key });
  advanceClock(1_500);
  const response = await send("/v1/store/orders", { key, headers: REQUEST_ID });
  expect(headersOf(response)).toStrictEqual({
    ...links("rate_limit_exceeded"),
    "content-type": "application/json",
    "ratelimit-policy": '"minute";q=1;w=60, "day";q=5;w=86400',
    ratelimit: '"minute";r=0;t=59, "day";r=4;t=86399',
    "x-ratelimit-limit": "1",
    "x-ratelimit-remaining": "0",
    "x-ratelimit-reset": String(Math.ceil((nowMs + 60_000) / 1_000)),
    "retry-after": "59",
    "x-request-id": "test-1",
  });
  const message = await expectError(response, 429, "rate_limit_exceeded");
  expect(message).toContain("Wait 59 seconds");
});

test("429 api_key_banned states when the ban ends", async () => {
  const { key } = await createEnterpriseKey(1, 5);
  const nowMs = stopClock();
  await send("/v1/store/orders", { key });
  await send("/v1/store/orders", { key });
  advanceClock(30_500);
  for (let strike = 1; strike < 60; strike++) await send("/v1/store/orders", { key });
  const response = await send("/v1/store/orders", { key, headers: REQUEST_ID });
  expect(headersOf(response)).toStrictEqual({
    ...links("api_key_banned"),
    "content-type": "application/json",
    "ratelimit-policy": '"minute";q=1;w=60, "day";q=5;w=86400',
    ratelimit: '"minute";r=0;t=60, "day";r=0;t=60',
    "x-ratelimit-limit": "1",
    "x-ratelimit-remaining": "0",
    "x-ratelimit-reset": String(Math.ceil((nowMs + 90_500) / 1_000)),
    "retry-after": "60",
    "x-request-id": "test-1",
  });
  expect(await expectError(response, 429, "api_key_banned")).toContain("Wait 60 seconds");
});

test("500 states the request id and is logged with the same id", async () => {
  const log = vi.spyOn(console, "warn").mockReturnValue();
  const { key } = await createApiKey();
  await env.ORDERS.exec("DROP TABLE orders");
  const nowMs = stopClock();
  const response = await send("/v1/store/orders", { key, headers: REQUEST_ID });
  expect(headersOf(response)).toStrictEqual({
    ...freshHeaders(nowMs, "internal_error"),
    "content-type": "application/json",
  });
  expect(await expectError(response, 500, "internal_error")).toContain("test-1");
  expect(log.mock.calls).toHaveLength(1);
  const entry = JSON.parse(String(log.mock.calls[0]));
  expect(entry).toMatchObject({ event: "internal_error", requestId: "test-1" });
  expect(JSON.stringify(entry)).not.toContain(key);
});

test("503 during authentication shows the budget of the address and counts nothing", async () => {
  const log = vi.spyOn(console, "warn").mockReturnValue();
  const { key } = await createApiKey();
  const unreachable = startService({}, { KEYS: unreachableDatabase() });
  const nowMs = stopClock();
  for (let attempt = 0; attempt < 2; attempt++) {
    const response = await unreachable("/v1/store/orders", { key, headers: REQUEST_ID });
    expect(headersOf(response)).toStrictEqual({
      ...freshHeaders(nowMs, "service_unavailable"),
      ratelimit: '"minute";r=60;t=60, "day";r=1000;t=86400',
      "x-ratelimit-remaining": "60",
      "content-type": "application/json",
      "retry-after": "5",
    });
    expect(await expectError(response, 503, "service_unavailable")).toContain("Repeat");
  }
  expect(JSON.stringify(log.mock.calls)).toContain("keys_database_unavailable");
});

test("each request without an X-Request-Id gets a unique id", async () => {
  const ids = await Promise.all(
    [1, 2].map(async () => (await send("/v1/nothing")).headers.get("X-Request-Id")),
  );
  for (const id of ids) expect(id).toMatch(/^[0-9a-f-]{36}$/);
  expect(ids[0]).not.toBe(ids[1]);
});
