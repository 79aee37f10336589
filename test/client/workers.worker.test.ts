import { expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { createApiKey } from "../support/api-key-fixture.ts";
import { placeOrder } from "../support/order-fixture.ts";
import { send } from "../support/service.ts";

test("the client lists and cancels orders in workerd, with exact int64 values", async () => {
  const { key } = await createApiKey();
  const client = createClient({
    apiKey: key,
    baseUrl: "https://store.example",
    // Calls the service directly instead of over the network.
    fetch: async (input, init) => {
      const { method, headers, url } = new Request(input, init);
      return send(new URL(url).pathname, { method, headers });
    },
  });
  const extreme = { petId: -(2n ** 63n), quantity: 2n ** 53n + 1n };
  await placeOrder(2n ** 63n - 1n, { ...extreme, complete: true });
  await placeOrder(5n, { status: "shipped" });
  expect(await client.listOrders().all()).toEqual([
    { id: 5n },
    { id: 2n ** 63n - 1n, ...extreme, complete: true },
  ]);
  expect(await client.cancelOrder(2n ** 63n - 1n)).toBe("cancelled");
  const refusal = { code: "order_already_shipped", requestId: expect.any(String) };
  await expect(client.cancelOrder(5n)).rejects.toMatchObject(refusal);
  for await (const { id } of client.listOrders()) if (id === 5n) break;
  const [minute] = (await client.quota()).windows;
  expect(minute).toEqual({ name: "minute", limit: 60, remaining: 56, resetsAt: expect.any(Date) });
});
