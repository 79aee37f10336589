import { expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/options.ts";
import { createApiKey } from "../support/api-key-fixture.ts";
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
