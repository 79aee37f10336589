import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { MAX_SEGMENT_ORDERS, placeManyOrders, placeOrder } from "../../support/order-fixture.ts";
import { LIST, send } from "../../support/service.ts";

async function list(): Promise<string> {
  const { key } = await createApiKey();
  const response = await send(LIST, { key });
  expect(response.status).toBe(200);
  return response.text();
}

test("orders with any fields of any length are listed in ascending id, exactly as they were stored", async () => {
  const powers = Array.from({ length: 19 }, (_, digits) => 10n ** BigInt(digits));
  const bounds = [INT64_MIN, INT64_MIN + 1n, INT64_MAX - 1n, INT64_MAX, 0n, 2n ** 53n + 1n];
  const lengths = fc.constantFrom(...bounds, ...powers, ...powers.map((power) => -power));
  const int64 = fc.oneof(fc.bigInt(INT64_MIN, INT64_MAX), fc.bigInt(-100n, 100n), lengths);
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

test("a list of more than a segment is complete, even if its orders have the maximum length", async () => {
  const count = MAX_SEGMENT_ORDERS + 1;
  const first = INT64_MIN + 1n;
  const shipDate = "2026-11-20T08:30:00.000Z";
  await env.ORDERS.prepare(
    `WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
     INSERT INTO orders (id, pet_id, quantity, ship_date, complete)
     SELECT CAST(?2 AS INTEGER) + n, CAST(?2 AS INTEGER), CAST(?2 AS INTEGER), ?3, 0 FROM numbers WHERE n < ?1`,
  )
    .bind(count, String(first), shipDate)
    .run();
  await placeOrder(INT64_MAX);
  const objects = Array.from(
    { length: count },
    (_, n) =>
      `{"id":${first + BigInt(n)},"petId":${first},"quantity":${first},"shipDate":"${shipDate}","complete":false}`,
  );
  expect((await list()) === `[${objects.join(",")},{"id":${INT64_MAX}}]`).toBe(true);
});

test("a request with the list's entity tag in If-None-Match receives 304 until the list changes", async () => {
  const { key } = await createApiKey({ plan: "business" });
  await placeManyOrders(MAX_SEGMENT_ORDERS + 1);
  const entityTag = async () => (await send(LIST, { key, method: "HEAD" })).headers.get("ETag")!;
  const getIf = async (condition: string) => {
    const response = await send(LIST, { key, headers: { "If-None-Match": condition } });
    expect(response.headers.get("ETag")).toMatch(/^"[!#-~]+"$/);
    quotaOf(response);
    await response.body?.cancel();
    return response.status;
  };
  const tag = await entityTag();
  const same = [tag, `W/${tag}`, `"other", W/"another" ,${tag}`, `${tag},"a,b"`, "*"];
  for (const condition of same) expect(await getIf(condition), condition).toBe(304);
  const others = ['"other"', tag.slice(1, -1), `${tag.slice(0, -2)}"`, tag.toUpperCase(), ""];
  others.push('""', '"""', `"') OR 1=1 --"`);
  others.push(Array.from({ length: 5_000 }, (_, n) => `"${n}"`).join(", "));
  for (const condition of others) expect(await getIf(condition), condition).toBe(200);
  await send(`${LIST}/5`, { key, method: "DELETE" });
  expect(await getIf(tag)).toBe(200);
  expect(await getIf(await entityTag())).toBe(304);
});

test("a list whose If-Match does not hold strongly is 412, before If-None-Match", async () => {
  const { key } = await createApiKey({ plan: "business" });
  await placeManyOrders(2);
  const tag = (await send(LIST, { key, method: "HEAD" })).headers.get("ETag")!;
  const getIf = async (match: string, others = {}) => {
    const headers = { "If-Match": match, ...others };
    const response = await send(LIST, { key, headers });
    quotaOf(response);
    if (response.status === 412) await expectError(response, 412, "precondition_failed");
    else await response.body?.cancel();
    return response.status;
  };
  for (const match of [tag, "*", `"other", ${tag}`]) expect(await getIf(match), match).toBe(200);
  for (const match of [`W/${tag}`, '"other"', "", tag.slice(1)])
    expect(await getIf(match), match).toBe(412);
  expect(await getIf(tag, { "If-None-Match": tag })).toBe(304);
  expect(await getIf('"other"', { "If-None-Match": tag })).toBe(412);
});
