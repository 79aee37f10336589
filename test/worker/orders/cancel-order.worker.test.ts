import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../../src/worker/orders/int64.ts";
import { expectError } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { stopClock } from "../../support/clock.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { send } from "../../support/service.ts";

const LIST = "/v1/store/orders";

function cancel(key: string, id: bigint | number): Promise<Response> {
  return send(`${LIST}/${id}`, { method: "DELETE", key });
}

test("a cancelled order is stored with the time of its cancellation, and the API no longer returns it", async () => {
  const { key } = await createApiKey();
  const order = { petId: 5n, quantity: 6n, shipDate: "2026-11-20T08:30:00.000Z", complete: true };
  await placeOrder(7n, order);
  const nowMs = stopClock();
  expect((await cancel(key, 7)).status).toBe(204);
  expect(await storedOrder(7n)).toStrictEqual({
    id: "7",
    petId: "5",
    quantity: "6",
    shipDate: "2026-11-20T08:30:00.000Z",
    complete: 1,
    status: "cancelled",
    cancelledAt: nowMs,
  });
  expect(await (await send(LIST, { key })).text()).toBe("[]");
  const message = await expectError(await cancel(key, 7), 404, "order_not_found");
  expect(message).toContain("7");
  expect(await storedOrder(7n)).toMatchObject({ cancelledAt: nowMs });
});

test.each([INT64_MIN, INT64_MIN + 1n, -(2n ** 53n) - 1n, -1n, 0n, 2n ** 53n + 1n, INT64_MAX])(
  "%s is found by its exact digits, and its neighbours do not change",
  async (id) => {
    const { key } = await createApiKey();
    const neighbours = [id - 1n, id + 1n].filter((n) => n >= INT64_MIN && n <= INT64_MAX);
    await placeOrder(id);
    for (const neighbour of neighbours) await placeOrder(neighbour);
    expect((await cancel(key, id)).status).toBe(204);
    expect(await storedOrder(id)).toMatchObject({ status: "cancelled" });
    for (const neighbour of neighbours) {
      expect(await storedOrder(neighbour)).toMatchObject({ status: "pending", cancelledAt: null });
    }
  },
);

test("the response for an order that does not exist is 404, and its message does not mention int64", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  const message = await expectError(await cancel(key, INT64_MAX), 404, "order_not_found");
  expect(message).toContain(String(INT64_MAX));
  expect(message).not.toContain("int64");
});

describe("simultaneous requests", () => {
  test("exactly one of fifty cancellations gets 204", async () => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    const answers = await Promise.all(Array.from({ length: 50 }, () => cancel(key, 1)));
    const statuses = answers.map(({ status }) => status).toSorted();
    expect(statuses).toStrictEqual([204, ...Array<number>(49).fill(404)]);
  });

  test("an order that ships at the same time is either shipped or cancelled", async () => {
    const { key } = await createEnterpriseKey(10_000, 10_000);
    for (let id = 1; id <= 20; id++) {
      await placeOrder(BigInt(id));
      const cancels = Array.from({ length: 4 }, () => cancel(key, id));
      const ship = env.ORDERS.prepare(
        "UPDATE orders SET status = 'shipped' WHERE id = ? AND status = 'pending' RETURNING id",
      )
        .bind(id)
        .all();
      cancels.push(...Array.from({ length: 4 }, () => cancel(key, id)));
      const [answers, shipped] = await Promise.all([Promise.all(cancels), ship]);
      const cancelled = answers.filter(({ status }) => status === 204).length;
      expect(cancelled + shipped.results.length).toBe(1);
      expect(await storedOrder(BigInt(id))).toMatchObject({
        status: cancelled === 1 ? "cancelled" : "shipped",
      });
    }
  });
});
