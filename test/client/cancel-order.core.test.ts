import { expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { cancelled, failed, OPTIONS, ScriptedService, unreachable } from "./scripted-service.ts";

function clientOf(service: ScriptedService) {
  return createClient({ ...OPTIONS, fetch: service.fetch });
}

test.each([
  [9223372036854775807n, "9223372036854775807"],
  [-9223372036854775808n, "-9223372036854775808"],
  [9007199254740991, "9007199254740991"],
  ["-42", "-42"],
])("the id %s is sent with every digit", async (id, text) => {
  const service = new ScriptedService(cancelled);
  expect(await clientOf(service).cancelOrder(id)).toBe("cancelled");
  expect(service.requests[0]).toMatchObject({
    method: "DELETE",
    url: `https://orders.example/v1/store/orders/${text}`,
  });
});

test.each([9223372036854775808n, 2 ** 53, 1.5, NaN, "007", "+5", "-0", "", "1/../2", "abc"])(
  "%s is not an id, and no request is sent",
  async (id) => {
    const service = new ScriptedService(cancelled);
    await expect(clientOf(service).cancelOrder(id)).rejects.toThrow(RangeError);
    await expect(clientOf(service).cancelOrders([1n, id])).rejects.toThrow(RangeError);
    expect(service.requests).toHaveLength(0);
  },
);

test.each([
  [401, "unauthorized"],
  [404, "order_not_found"],
  [404, "not_found"],
  [405, "method_not_allowed"],
  [409, "order_already_shipped"],
])("%i %s becomes an error with this code, and is not retried", async (status, code) => {
  const service = new ScriptedService(failed(status, code));
  await expect(clientOf(service).cancelOrder(1n)).rejects.toMatchObject({
    name: "ApiError",
    code,
    status,
    message: `about ${code}`,
    requestId: "request-1",
    retryAfterSeconds: null,
  });
  expect(service.requests).toHaveLength(1);
});

test.each([
  ["a lost connection", unreachable],
  ["a 500", failed(500, "internal_error")],
  ["a 503", failed(503, "service_unavailable", { "Retry-After": "0" })],
])(
  "a 404 after %s gives cancelled_or_gone, because the order may be cancelled",
  async (_, first) => {
    const service = new ScriptedService(first, failed(404, "order_not_found"));
    expect(await clientOf(service).cancelOrder(1n)).toBe("cancelled_or_gone");
  },
);

test("a 404 after a 429 means that there is no such order", async () => {
  const refusal = failed(429, "rate_limit_exceeded", { "Retry-After": "0" });
  const service = new ScriptedService(refusal, failed(404, "order_not_found"));
  await expect(clientOf(service).cancelOrder(1n)).rejects.toMatchObject({
    code: "order_not_found",
  });
});

test("a 409 after a lost connection means that the order has shipped", async () => {
  const service = new ScriptedService(unreachable, failed(409, "order_already_shipped"));
  await expect(clientOf(service).cancelOrder(1n)).rejects.toMatchObject({
    code: "order_already_shipped",
  });
});

test.each([
  [{ apiKey: "" }, "apiKey"],
  [{ apiKey: "sord_secret sord_secret" }, "apiKey"],
  [{ apiKey: "sord_secret\n" }, "apiKey"],
  [{ baseUrl: "orders.example" }, "baseUrl"],
  [{ baseUrl: "ftp://orders.example" }, "baseUrl"],
  [{ baseUrl: "https://key@orders.example" }, "baseUrl"],
  [{ baseUrl: "https://orders.example?key=1" }, "baseUrl"],
  [{ timeoutMs: 0 }, "timeoutMs"],
  [{ timeoutMs: 2 ** 31 }, "timeoutMs"],
  [{ retries: -1 }, "retries"],
  [{ retries: 1.5 }, "retries"],
  [{ maxElapsedMs: NaN }, "maxElapsedMs"],
])(
  "wrong options %o are refused with the name of the option and without the key",
  (options, name) => {
    const create = () => createClient({ ...OPTIONS, ...options });
    expect(create).toThrow(name);
    expect(create).not.toThrow(/secret/);
  },
);
