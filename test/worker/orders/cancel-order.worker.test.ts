import { env } from "cloudflare:workers";
import { beforeEach, expect, test, vi } from "vitest";
import { d1Database } from "../../../src/store/d1-database.ts";
import { readCancellations } from "../../../src/store/orders/cancellations.ts";
import { expectError } from "../../support/answer.ts";
import { createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { DAY_MS } from "../../support/clock.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, send } from "../../support/service.ts";

let keyId: string;
let key: string;
beforeEach(async () => void ({ id: keyId, key } = await createEnterpriseKey(10_000, 10_000)));

const cancel = (order: number | string, headers: Record<string, string> = {}) =>
  send(`${LIST}/${order}`, { method: "DELETE", key, headers });
const cancelled = async (column: string) =>
  (await env.ORDERS.prepare(`SELECT ${column} FROM cancelled_orders ORDER BY rowid`).raw()).flat();

test("a cancelled order is kept with the key and the database's time", async () => {
  const order = { petId: 3n, quantity: 4n, shipDate: "2026-11-20T08:30:00.000Z", complete: true };
  await placeOrder(7n, order);
  const beganMs = Date.now();
  vi.useFakeTimers({ toFake: ["Date"], now: beganMs + DAY_MS });
  expect((await cancel(7)).status).toBe(204);
  vi.useRealTimers();
  const kept = { id: 7n, ...order, status: "cancelled", cancelledBy: keyId };
  expect(await storedOrder(7n)).toMatchObject(kept);
  const [cancelledAt] = await cancelled("cancelled_at");
  expect(cancelledAt).toBeGreaterThanOrEqual(beganMs);
  expect(cancelledAt).toBeLessThanOrEqual(Date.now());
});

test("positions of cancellations grow and are read in order, after deletions and a clock that was set back too", async () => {
  const seen: unknown[] = [];
  for (const meanwhile of [
    "",
    "UPDATE order_list SET sequence = 5000000000000000",
    "",
    "DELETE FROM cancelled_orders",
    // The positions of an import can be larger than the sequence number.
    "UPDATE cancelled_orders SET position = 6000000000000000, cancelled_at = 4000000000000",
  ]) {
    if (meanwhile !== "") await env.ORDERS.exec(meanwhile);
    await placeOrder(7n);
    expect((await cancel(7)).status).toBe(204);
    seen.push((await cancelled("position")).at(-1));
  }
  expect(Number(seen[0]) / 1_000).toBeCloseTo(Date.now(), -5);
  expect([seen[1], seen[4]]).toEqual([5000000000000002, 6000000000000001]);
  expect([...new Set(seen)].toSorted()).toEqual(seen);
  const heard = await readCancellations(d1Database(env.ORDERS).orm, 0, 10);
  expect(heard.map(({ position }) => position)).toEqual([6000000000000000, seen[4]]);
});

test("A request whose precondition is false is not performed: 412, after 404 and 409", async () => {
  for (const id of [1n, 2n, 3n]) await placeOrder(id);
  await placeOrder(9n, { status: "shipped" });
  for (const headers of [{ "If-Match": '"*"' }, { "If-Match": "" }, { "If-None-Match": "*" }]) {
    for (const [id, status, code, says] of [
      [1, 412, "precondition_failed", /1 was not cancelled/],
      [8, 404, "order_not_found", /has the id 8\. It may/],
      ["x", 404, "order_not_found", /an int64/],
      [9, 409, "order_already_shipped", /9 has already shipped/],
    ] as const)
      expect(await expectError(await cancel(id, headers), status, code)).toMatch(says);
    expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
  }
  expect((await cancel(2, { "If-Match": "*" })).status).toBe(204);
  expect((await cancel(3, { "If-None-Match": '"stale"' })).status).toBe(204);
  await expectError(await cancel(9), 409, "order_already_shipped");
  expect(await cancelled("id")).toEqual([2, 3]);
});
