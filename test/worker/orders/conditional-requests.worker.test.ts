import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { MAX_SEGMENT_ORDERS, placeManyOrders, placeOrder } from "../../support/order-fixture.ts";
import { send } from "../../support/service.ts";

const LIST = "/v1/store/orders";

async function entityTag(key: string, method = "HEAD"): Promise<string> {
  const response = await send(LIST, { method, key });
  await response.body?.cancel();
  const tag = response.headers.get("ETag");
  expect(tag).toMatch(/^"[!#-~]+"$/);
  return tag!;
}

async function getIf(key: string, condition: string): Promise<{ status: number; text: string }> {
  const response = await send(LIST, { key, headers: { "If-None-Match": condition } });
  expect(response.headers.get("ETag")).toMatch(/^"[!#-~]+"$/);
  quotaOf(response);
  return { status: response.status, text: await response.text() };
}

const NOT_MODIFIED = { status: 304, text: "" };

describe("the entity tag of the list", () => {
  test("stays the same while nothing changes, for all keys and methods", async () => {
    const { key } = await createApiKey();
    const other = await createApiKey();
    await placeOrder(1n);
    const tag = await entityTag(key);
    expect(await entityTag(key, "GET")).toBe(tag);
    expect(await entityTag(other.key, "GET")).toBe(tag);
    await send(`${LIST}/2`, { method: "DELETE", key });
    expect(await entityTag(key)).toBe(tag);
  });

  test("changes when an order is cancelled through the API", async () => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    const tag = await entityTag(key);
    await send(`${LIST}/1`, { method: "DELETE", key });
    expect(await entityTag(key)).not.toBe(tag);
  });

  test.each([
    ["an insert", "INSERT INTO orders (id) VALUES (3)"],
    ["an update", "UPDATE orders SET quantity = 5 WHERE id = 1"],
    ["a change of status", "UPDATE orders SET status = 'shipped' WHERE id = 1"],
    ["a delete", "DELETE FROM orders WHERE id = 1"],
    ["a delete of everything", "DELETE FROM orders"],
    ["a replacement", "INSERT OR REPLACE INTO orders (id, quantity) VALUES (1, 7)"],
    ["an upsert", "INSERT INTO orders (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET complete = 1"],
  ])("changes with %s in the database", async (_, statement) => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    await placeOrder(2n);
    const tag = await entityTag(key);
    await env.ORDERS.exec(statement);
    const changed = await entityTag(key);
    expect(changed).not.toBe(tag);
    expect(await entityTag(key, "GET")).toBe(changed);
  });

  test("is never repeated, even if the list returns to an earlier content", async () => {
    const { key } = await createApiKey();
    const tags = [await entityTag(key)];
    for (const quantity of [1, 2, 1, 2]) {
      await env.ORDERS.exec(`INSERT OR REPLACE INTO orders (id, quantity) VALUES (1, ${quantity})`);
      tags.push(await entityTag(key));
    }
    expect(new Set(tags).size).toBe(5);
  });
});

describe("If-None-Match", () => {
  test.each<[string, (tag: string) => string]>([
    ["the tag", (tag) => tag],
    ["the tag as a weak one", (tag) => `W/${tag}`],
    ["a list of tags that includes the tag", (tag) => `"other", W/"another" ,${tag}`],
    ["a list of tags that begins with the tag", (tag) => `${tag},"a,b"`],
    ["any tag", () => "*"],
  ])("with %s receives 304", async (_, condition) => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    const tag = await entityTag(key);
    expect(await getIf(key, condition(tag))).toStrictEqual(NOT_MODIFIED);
  });

  test.each<[string, (tag: string) => string]>([
    ["another tag", () => '"other"'],
    ["the tag without its quotation marks", (tag) => tag.slice(1, -1)],
    ["a part of the tag", (tag) => `${tag.slice(0, -2)}"`],
    ["the tag in capitals", (tag) => tag.toUpperCase()],
    ["nothing", () => ""],
    ["an empty tag", () => '""'],
    ["rubbish", () => '"""'],
    ["quotes of SQL", () => `"') OR 1=1 --"`],
    ["very many tags", () => Array.from({ length: 5_000 }, (_, n) => `"${n}"`).join(", ")],
  ])("with %s receives 200", async (_, condition) => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    const tag = await entityTag(key);
    expect(await getIf(key, condition(tag))).toStrictEqual({ status: 200, text: '[{"id":1}]' });
  });

  test("receives 304 until the list changes", async () => {
    const { key } = await createApiKey();
    const tag = await entityTag(key);
    expect(await getIf(key, tag)).toStrictEqual(NOT_MODIFIED);
    await placeOrder(1n);
    expect(await getIf(key, tag)).toStrictEqual({ status: 200, text: '[{"id":1}]' });
    expect(await getIf(key, await entityTag(key))).toStrictEqual(NOT_MODIFIED);
  });

  test("works for a list longer than a segment", async () => {
    const { key } = await createApiKey();
    await placeManyOrders(MAX_SEGMENT_ORDERS + 1);
    expect(await getIf(key, await entityTag(key, "GET"))).toStrictEqual(NOT_MODIFIED);
  });
});
