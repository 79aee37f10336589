import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import { expectError } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { stopClock } from "../../support/clock.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, send } from "../../support/service.ts";

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
    shipDate: order.shipDate,
    complete: 1,
    status: "cancelled",
    cancelledAt: nowMs,
  });
  expect(await (await send(LIST, { key })).text()).toBe("[]");
  const message = await expectError(await cancel(key, 7), 404, "order_not_found");
  expect(message).toMatch(/7\b.* cancelled before/);
  expect(await storedOrder(7n)).toMatchObject({ cancelledAt: nowMs });
  // The order is placed again, and cancelled in the same millisecond as the first time.
  await placeOrder(7n);
  expect((await cancel(key, 7)).status).toBe(204);
});

test("A request whose precondition is false is not performed: 412, after 404 and 409", async () => {
  const { key } = await createApiKey();
  for (const id of [1n, 2n, 3n, 4n, 5n]) await placeOrder(id);
  await placeOrder(9n, { status: "shipped" });
  const cancelIf = (id: number | string, headers: Record<string, string>) =>
    send(`${LIST}/${id}`, { method: "DELETE", key, headers });
  const falsehoods = ['"stale"', 'W/"1"', '*, "a"', '"*"', "", "stale"].map((tag) => ({
    "If-Match": tag,
  }));
  for (const headers of [...falsehoods, { "If-None-Match": "*" }]) {
    await expectError(await cancelIf(1, headers), 412, "precondition_failed");
    expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
    await expectError(await cancelIf(8, headers), 404, "order_not_found");
    await expectError(await cancelIf("x", headers), 404, "order_not_found");
    await expectError(await cancelIf(9, headers), 409, "order_already_shipped");
  }
  const truths = [{ "If-Match": "*" }, { "If-Match": " * " }, { "If-None-Match": '"stale"' }];
  for (const [index, headers] of truths.entries())
    expect((await cancelIf(index + 2, headers)).status).toBe(204);
  expect((await cancelIf(5, { "If-Match": "*", "If-None-Match": "*" })).status).toBe(412);
});

test("an order is found by its exact digits, and its neighbours do not change", async () => {
  const { key } = await createApiKey();
  const ids = [INT64_MIN, -(2n ** 53n) - 1n, -1n, 0n, 2n ** 53n + 1n, INT64_MAX];
  const isInt64 = (n: bigint) => n >= INT64_MIN && n <= INT64_MAX;
  const neighbours = [...new Set(ids.flatMap((id) => [id - 1n, id + 1n]))].filter(
    (n) => isInt64(n) && !ids.includes(n),
  );
  for (const id of [...ids, ...neighbours]) await placeOrder(id);
  for (const id of ids) {
    expect((await cancel(key, id)).status).toBe(204);
    expect(await storedOrder(id)).toMatchObject({ status: "cancelled" });
  }
  for (const neighbour of neighbours) {
    expect(await storedOrder(neighbour)).toMatchObject({ status: "pending", cancelledAt: null });
  }
});

test("of simultaneous cancellations of an order exactly one gets 204, unless the order ships", async () => {
  const { key } = await createEnterpriseKey(10_000, 10_000);
  for (let id = 1; id <= 10; id++) {
    await placeOrder(BigInt(id));
    const cancels = Array.from({ length: 4 }, () => cancel(key, id));
    const ship = env.ORDERS.prepare(
      "UPDATE orders SET status = 'shipped' WHERE id = ? AND status = 'pending' RETURNING id",
    );
    const shipping = id % 3 === 0 ? null : ship.bind(id).all();
    cancels.push(...Array.from({ length: 4 }, () => cancel(key, id)));
    const [answers, shipped] = await Promise.all([Promise.all(cancels), shipping]);
    const cancelled = answers.filter(({ status }) => status === 204).length;
    expect(cancelled + (shipped?.results.length ?? 0)).toBe(1);
    const status = cancelled === 1 ? "cancelled" : "shipped";
    expect(await storedOrder(BigInt(id))).toMatchObject({ status });
  }
});
