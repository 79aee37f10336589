import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../../src/worker/orders/int64.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { databaseLine } from "../../support/database-double.ts";
import {
  cutIntoSegments,
  MAX_SEGMENT_ORDERS,
  placeManyOrders,
  placeOrder,
} from "../../support/order-fixture.ts";
import { send, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";

async function list(): Promise<string> {
  const { key } = await createApiKey();
  const response = await send(LIST, { key });
  expect(response.status).toBe(200);
  expect(response.headers.get("Content-Type")).toBe("application/json");
  return response.text();
}

function idsIn(json: string): number[] {
  return JSON.parse(json).map(({ id }: { id: number }) => id);
}

/** Returns the numbers from 1 to `count` that are not in `except`. */
function numbersTo(count: number, except: readonly number[] = []): number[] {
  return Array.from({ length: count }, (_, index) => index + 1).filter((n) => !except.includes(n));
}

test("an empty store has an empty list", async () => {
  expect(await list()).toBe("[]");
});

test("every int64 is exact, and orders are in ascending order of ids", async () => {
  const values = [
    INT64_MAX,
    0n,
    2n ** 53n + 1n,
    INT64_MIN,
    -1n,
    INT64_MAX - 1n,
    -(2n ** 53n) - 1n,
    INT64_MIN + 1n,
    10n,
    9n,
  ];
  for (const value of values) await placeOrder(value, { petId: -value - 1n, quantity: value });
  const sorted = values.toSorted((a, b) => (a < b ? -1 : 1));
  const objects = sorted.map((n) => `{"id":${n},"petId":${-n - 1n},"quantity":${n}}`);
  expect(await list()).toBe(`[${objects.join(",")}]`);
});

test("a number of any length is exact", async () => {
  const powers = Array.from({ length: 19 }, (_, digits) => 10n ** BigInt(digits));
  const values = [...powers.map((power) => -power).toReversed(), ...powers];
  for (const value of values) await placeOrder(value, { petId: -value, quantity: value });
  const objects = values.map((n) => `{"id":${n},"petId":${-n},"quantity":${n}}`);
  expect(await list()).toBe(`[${objects.join(",")}]`);
});

test("missing fields of an order are omitted; fields with the value 0 or false are not", async () => {
  const shipDate = "2026-11-20T08:30:00.000Z";
  await placeOrder(1n);
  await placeOrder(2n, { petId: 0n });
  await placeOrder(3n, { quantity: 0n });
  await placeOrder(4n, { shipDate });
  await placeOrder(5n, { complete: false });
  await placeOrder(6n, { petId: -7n, quantity: 1n, shipDate, complete: true, status: "shipped" });
  expect(await list()).toBe(
    [
      '[{"id":1}',
      '{"id":2,"petId":0}',
      '{"id":3,"quantity":0}',
      `{"id":4,"shipDate":"${shipDate}"}`,
      '{"id":5,"complete":false}',
      `{"id":6,"petId":-7,"quantity":1,"shipDate":"${shipDate}","complete":true}]`,
    ].join(","),
  );
});

test("orders with any fields of any length are listed exactly as they were stored", async () => {
  const int64 = fc.oneof(fc.bigInt(INT64_MIN, INT64_MAX), fc.bigInt(-100n, 100n));
  const shipDate = fc
    .date({ min: new Date(0), max: new Date("9999-12-31"), noInvalidDate: true })
    .map((date) => date.toISOString());
  const order = fc.record(
    { id: int64, petId: int64, quantity: int64, shipDate, complete: fc.boolean() },
    { requiredKeys: ["id"] },
  );
  const orders = fc.uniqueArray(order, { selector: ({ id }) => id, maxLength: 30, size: "max" });
  const { key } = await createApiKey({ plan: "business" });
  await fc.assert(
    fc.asyncProperty(orders, async (placed) => {
      await env.ORDERS.exec("DELETE FROM orders");
      for (const { id, ...fields } of placed) await placeOrder(id, fields);
      const sorted = placed.toSorted((a, b) => (a.id < b.id ? -1 : 1));
      const text = sorted.map(({ id, petId, quantity, shipDate: date, complete }) =>
        [
          `{"id":${id}`,
          petId === undefined ? "" : `,"petId":${petId}`,
          quantity === undefined ? "" : `,"quantity":${quantity}`,
          date === undefined ? "" : `,"shipDate":"${date}"`,
          complete === undefined ? "}" : `,"complete":${complete}}`,
        ].join(""),
      );
      const response = await send(LIST, { key });
      expect(await response.text()).toBe(`[${text.join(",")}]`);
    }),
    { numRuns: 20 },
  );
});

test("shipped orders are listed, and cancelled orders are not", async () => {
  await placeOrder(1n, { status: "cancelled", cancelledAt: new Date() });
  await placeOrder(2n, { status: "shipped" });
  await placeOrder(3n, { status: "cancelled", cancelledAt: new Date() });
  await placeOrder(4n);
  await placeOrder(5n, { status: "cancelled", cancelledAt: new Date() });
  expect(await list()).toBe('[{"id":2},{"id":4}]');
});

describe("a list longer than a segment is complete", () => {
  test.each([
    ["a segment", MAX_SEGMENT_ORDERS],
    ["a segment and an order", MAX_SEGMENT_ORDERS + 1],
    ["two segments", 2 * MAX_SEGMENT_ORDERS],
    ["two segments and a half", Math.floor(2.5 * MAX_SEGMENT_ORDERS)],
  ])("%s", async (_, count) => {
    await placeManyOrders(count);
    expect(idsIn(await list())).toStrictEqual(numbersTo(count));
  });

  test("if orders between others were cancelled", async () => {
    const count = 2 * MAX_SEGMENT_ORDERS + 2;
    const gaps = [1, 2, MAX_SEGMENT_ORDERS, MAX_SEGMENT_ORDERS + 1, MAX_SEGMENT_ORDERS + 2, count];
    await placeManyOrders(count);
    await env.ORDERS.exec(
      `UPDATE orders SET status = 'cancelled', cancelled_at = 1 WHERE id IN (${gaps.join()})`,
    );
    expect(idsIn(await list())).toStrictEqual(numbersTo(count, gaps));
  });

  test("if its last id is the largest int64", async () => {
    const first = INT64_MAX - BigInt(MAX_SEGMENT_ORDERS);
    await env.ORDERS.prepare(
      `WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
       INSERT INTO orders (id) SELECT CAST(?2 AS INTEGER) + n FROM numbers WHERE n <= ?1`,
    )
      .bind(MAX_SEGMENT_ORDERS, String(first))
      .run();
    const json = await list();
    expect(idsIn(json)).toHaveLength(MAX_SEGMENT_ORDERS + 1);
    expect(json.startsWith(`[{"id":${first}},{"id":${first + 1n}}`)).toBe(true);
    expect(json.endsWith(`{"id":${INT64_MAX - 1n}},{"id":${INT64_MAX}}]`)).toBe(true);
  });

  test("if all its orders have the maximum length", async () => {
    const count = MAX_SEGMENT_ORDERS + 1;
    const shipDate = "2026-11-20T08:30:00.000Z";
    await env.ORDERS.prepare(
      `WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
       INSERT INTO orders (id, pet_id, quantity, ship_date, complete)
       SELECT CAST(?2 AS INTEGER) + n, CAST(?2 AS INTEGER), CAST(?2 AS INTEGER), ?3, 0 FROM numbers WHERE n < ?1`,
    )
      .bind(count, String(INT64_MIN), shipDate)
      .run();
    const objects = Array.from(
      { length: count },
      (_, n) =>
        `{"id":${INT64_MIN + BigInt(n)},"petId":${INT64_MIN},"quantity":${INT64_MIN},"shipDate":"${shipDate}","complete":false}`,
    );
    expect((await list()) === `[${objects.join(",")}]`).toBe(true);
  });

  test("if it is read repeatedly, also after a change", async () => {
    const count = MAX_SEGMENT_ORDERS + 1;
    await placeManyOrders(count);
    const { key } = await createApiKey();
    const service = startService();
    for (let read = 0; read < 3; read++) {
      const response = await service(LIST, { key });
      expect(idsIn(await response.text())).toStrictEqual(numbersTo(count));
    }
    await service(`${LIST}/5`, { method: "DELETE", key });
    const response = await service(LIST, { key });
    expect(idsIn(await response.text())).toStrictEqual(numbersTo(count, [5]));
  });

  test("and is read from the primary database alone", async () => {
    await placeManyOrders(40);
    await cutIntoSegments(2);
    const { key } = await createApiKey();
    const line = databaseLine(env.ORDERS);
    const response = await startService({}, { ORDERS: line.database })(LIST, { key });
    expect(idsIn(await response.text())).toStrictEqual(numbersTo(40));
    expect(line.sessions).toStrictEqual([]);
  });

  test("and is not valid JSON if it is cut off", async () => {
    await placeManyOrders(40);
    await cutIntoSegments(2);
    const { key } = await createApiKey();
    const line = databaseLine(env.ORDERS);
    const service = startService({ DATABASE_TIMEOUT_MS: "200" }, { ORDERS: line.database });
    await service("/v1/nothing", { key });
    const response = await service(LIST, { key });
    line.isCut = true;
    expect(response.status).toBe(200);
    let text = "";
    const read = async () => {
      const decoder = new TextDecoder();
      for await (const chunk of response.body!) text += decoder.decode(chunk, { stream: true });
    };
    await expect(read()).rejects.toThrow();
    expect(text).toBe('[{"id":1},{"id":2}');
  });
});
