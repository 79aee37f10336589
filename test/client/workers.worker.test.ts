import { expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/options.ts";
import { createApiKey, createEnterpriseKey } from "../support/api-key-fixture.ts";
import { placeManyOrders, placeOrder } from "../support/order-fixture.ts";
import { send } from "../support/service.ts";

/** Creates a client in workerd that calls the service directly instead of over the network. */
function clientOf(key: string, options: Partial<ClientOptions> = {}) {
  return createClient({
    ...options,
    apiKey: key,
    baseUrl: "https://store.example",
    fetch: async (input, init) => {
      const { method, headers, url } = new Request(input, init);
      return send(new URL(url).pathname, { method, headers });
    },
  });
}

test("lists and cancels orders with exact int64 values", async () => {
  const { key } = await createApiKey();
  const client = clientOf(key);
  const extreme = { petId: -(2n ** 63n), quantity: 2n ** 53n + 1n };
  await placeOrder(2n ** 63n - 1n, { ...extreme, complete: true });
  await placeOrder(5n, { status: "shipped" });
  expect(await client.listOrders().all()).toEqual([
    { id: 5n },
    { id: 2n ** 63n - 1n, ...extreme, complete: true },
  ]);
  expect(await client.cancelOrder(2n ** 63n - 1n)).toBe("cancelled");
  await expect(client.cancelOrder(2n ** 63n - 1n)).rejects.toMatchObject({
    code: "order_not_found",
    requestId: expect.any(String),
  });
  await expect(client.cancelOrder(5n)).rejects.toMatchObject({ code: "order_already_shipped" });
  expect(await client.listOrders().all()).toEqual([{ id: 5n }]);
});

test("a long list arrives complete, and leaving the loop early is no error", async () => {
  const { key } = await createApiKey();
  await placeManyOrders(20_000);
  let count = 0n;
  for await (const { id } of clientOf(key).listOrders()) {
    count += 1n;
    expect(id).toBe(count);
  }
  expect(count).toBe(20_000n);
  for await (const { id } of clientOf(key).listOrders()) if (id === 3n) break;
});

test("a list is sent again only after a change", async () => {
  const { key } = await createEnterpriseKey(60, 1_000);
  await placeOrder(1n);
  const requestIds: (string | null)[] = [];
  const client = clientOf(key, {
    onResponse: ({ headers }) => requestIds.push(headers.get("X-Request-Id")),
  });
  const first = client.listOrders({ requestId: "first" });
  expect(await first.all()).toHaveLength(1);
  const again = client.listOrders({ ifNoneMatch: first.etag, requestId: "again" });
  await expect(again.all()).rejects.toMatchObject({ code: "not_modified", requestId: "again" });
  await client.cancelOrder(1n, { requestId: "cancel" });
  expect(await again.all()).toEqual([]);
  expect(again.etag).not.toBe(first.etag);
  expect(requestIds).toEqual(["first", "again", "cancel", "again"]);
  expect(client.limits?.windows).toMatchObject([
    { name: "minute", limit: 60, remaining: 56 },
    { name: "day", limit: 1_000, remaining: 996 },
  ]);
});

test("a refusal by the limiter is an error with retryAfterSeconds", async () => {
  const { key } = await createEnterpriseKey(2, 1_000);
  const client = createClient({
    apiKey: key,
    baseUrl: "https://store.example",
    retries: 0,
    fetch: async (_, init) =>
      send("/v1/store/orders/1", { method: "DELETE", headers: init?.headers ?? {} }),
  });
  await expect(client.cancelOrder(1n)).rejects.toMatchObject({ code: "order_not_found" });
  await expect(client.cancelOrder(1n)).rejects.toMatchObject({ code: "order_not_found" });
  await expect(client.cancelOrder(1n)).rejects.toMatchObject({
    code: "rate_limit_exceeded",
    status: 429,
    retryAfterSeconds: 60,
  });
  await expect(clientOf("sord_wrong").listOrders().all()).rejects.toMatchObject({
    code: "unauthorized",
  });
});
