import { beforeEach, describe, expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { brokenDatabase, brokenLimiters, LOST } from "../../support/faults.ts";
import { placeOrder } from "../../support/order-fixture.ts";
import { LIST, type Send, send, startService } from "../../support/service.ts";
import { requestLines } from "../../support/written-lines.ts";

let id: string;
let key: string;

beforeEach(async () => {
  ({ id, key } = await createApiKey());
});

/** The log line of a Free key's first request. */
const FIRST = {
  event: "request",
  requestId: "test-1",
  method: "GET",
  route: LIST,
  status: 200,
  code: null,
  plan: "free",
  window: "minute",
  limit: 60,
  remaining: 59,
  durationMs: 0,
  represents: 1,
  region: null,
  country: null,
  degraded: null,
  servedBy: null,
};

async function lineOf(
  service: Send,
  path: string,
  options: Parameters<Send>[1] = {},
): Promise<unknown> {
  const headers = new Headers(options.headers);
  headers.set("X-Request-Id", "test-1");
  await (await service(path, { ...options, headers })).text();
  return requestLines().at(-1);
}

describe("each request writes one log line", () => {
  beforeEach(() => void stopClock());

  test("of a request with a valid key, which counts whatever its response", async () => {
    await placeOrder(7n);
    await placeOrder(8n, { status: "shipped" });
    const requests: [number, string, string, string, object][] = [
      [200, "GET", LIST, LIST, {}],
      [200, "HEAD", `${LIST}?page=1`, LIST, {}],
      [304, "GET", LIST, LIST, {}],
      [204, "DELETE", `${LIST}/7`, `${LIST}/{orderId}`, {}],
      [404, "DELETE", `${LIST}/9`, `${LIST}/{orderId}`, { code: "order_not_found" }],
      [404, "DELETE", `${LIST}/x%2Fy`, `${LIST}/{orderId}`, { code: "order_not_found" }],
      [404, "GET", "/v1/anything/at%20all", "/v1/*", { code: "not_found" }],
      [405, "POST", LIST, LIST, { code: "method_not_allowed" }],
      [405, "OPTIONS", LIST, LIST, { code: "method_not_allowed" }],
      [409, "DELETE", `${LIST}/8`, `${LIST}/{orderId}`, { code: "order_already_shipped" }],
    ];
    for (const [index, [status, method, path, route, fields]] of requests.entries()) {
      const headers = status === 304 ? { "If-None-Match": "*" } : {};
      const line = await lineOf(send, path, { method, key, headers });
      const expected = { ...FIRST, keyId: id, method, route, status, remaining: 59 - index };
      expect(line).toStrictEqual({ ...expected, ...fields });
    }
    expect(requestLines()).toHaveLength(requests.length);
  });

  test("of a refused request, of one with an unknown key, and of one outside /v1", async () => {
    const scarce = await createEnterpriseKey(1, 5);
    await send(LIST, { key: scarce.key });
    const refused = { keyId: scarce.id, plan: "enterprise", limit: 1, remaining: 0 };
    const line = { ...FIRST, status: 429, code: "rate_limit_exceeded", ...refused };
    expect(await lineOf(send, LIST, { key: scarce.key })).toStrictEqual(line);
    const unknown = await lineOf(send, LIST, { key: generateSecret(), address: "192.0.2.1" });
    const nobody = { ...FIRST, keyId: null, plan: null };
    expect(unknown).toStrictEqual({ ...nobody, status: 401, code: "unauthorized" });
    const uncounted = { ...nobody, window: null, limit: null, remaining: null };
    const elsewhere = { ...uncounted, route: "/*", status: 404, code: "not_found" };
    expect(await lineOf(send, "/any/where")).toStrictEqual(elsewhere);
  });
});

test("a request on which the fallback limiter decided is logged as degraded", async () => {
  const service = startService({}, brokenLimiters());
  const degraded = { status: 200, keyId: id, remaining: 59, degraded: "limiter" };
  expect(await lineOf(service, LIST, { key })).toMatchObject(degraded);
  expect(await lineOf(send, LIST, { key })).toMatchObject({ ...degraded, degraded: null });
  const neither = { ...brokenLimiters(), ...brokenDatabase("ORDERS") };
  const line = await lineOf(startService({}, neither), LIST, { key });
  expect(line).toMatchObject({ degraded: "limiter,orders" });
});

test("the duration is the time until the response, and never negative", async () => {
  stopClock();
  const after = (ms: number) =>
    startService(
      {},
      brokenDatabase("KEYS", (call) => (advanceClock(ms), LOST(call))),
    );
  expect(await lineOf(after(1_500), LIST, { key })).toMatchObject({ durationMs: 1_500 });
  expect(await lineOf(after(-1_500), LIST, { key })).toMatchObject({ durationMs: 0 });
});

test("the request id is the one in the response: the caller's id if it is well formed, otherwise a new id", async () => {
  const traces = [
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
  ];
  const wrong = ["a".repeat(256), "with space", "new\tline", ""];
  for (const sent of ["a".repeat(255), "a-1_b=", crypto.randomUUID(), ...traces, ...wrong]) {
    const response = await send(LIST, { key, headers: { "X-Request-Id": sent } });
    const answered = response.headers.get("X-Request-Id");
    const isKept = /^[\w=-]{1,255}$/.test(sent);
    expect(answered).toMatch(isKept ? new RegExp(`^${sent}$`) : /^[0-9a-f-]{36}$/);
    expect(requestLines().at(-1)?.requestId).toBe(answered);
  }
});

test.each([
  ["all", [404, 401, 200, 503]],
  ["errors", [200, 503]],
  ["none", []],
])("REQUEST_LOG %s", async (REQUEST_LOG, statuses) => {
  await startService({ REQUEST_LOG })("/v1/nothing", { key });
  await startService({ REQUEST_LOG })(LIST);
  await startService({ REQUEST_LOG }, brokenLimiters())(LIST, { key });
  await startService({ REQUEST_LOG }, brokenDatabase("ORDERS"))(LIST, { key });
  expect(requestLines().map(({ status }) => status)).toStrictEqual(statuses);
});
