import { beforeEach, expect, test } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { placeManyOrders, placeOrder } from "../../support/order-fixture.ts";
import { LIST, send } from "../../support/service.ts";

let key: string;
beforeEach(async () => void ({ key } = await createApiKey({ plan: "business" })));

test("orders with any fields of any length are listed in ascending id, exactly as they were stored", async () => {
  const powers = Array.from({ length: 19 }, (_, digits) => 10n ** BigInt(digits));
  const bounds = [INT64_MIN, INT64_MIN + 1n, INT64_MAX - 1n, INT64_MAX, 0n, 2n ** 53n + 1n];
  const ids = [...bounds, ...powers, ...powers.map((power) => -power)];
  const days = ["2026-11-20", "0000-01-01", "9999-12-31"];
  // Every id, with one combination of the other fields after another.
  const orders = ids.map((id, index) => {
    const other = (step: number) => ids[(index * 5 + step) % ids.length]!;
    const shipDate = `${days[index % 3]}T23:59:59.999Z`;
    const fields = { petId: other(7), quantity: other(11), shipDate, complete: index % 5 > 2 };
    const kept = Object.entries(fields).filter((_, bit) => ((index >> bit) & 1) === 0);
    return { id, ...Object.fromEntries(kept) } as { id: bigint } & Partial<typeof fields>;
  });
  for (const { id, ...fields } of orders) await placeOrder(id, fields);
  const sorted = orders.toSorted((one, other) => (one.id < other.id ? -1 : 1));
  const marked = (_: string, value: unknown) =>
    typeof value === "bigint" ? `int64 ${value}` : value;
  const json = JSON.stringify(sorted, marked).replaceAll(/"int64 (-?\d+)"/g, "$1");
  expect(await (await send(LIST, { key })).text()).toBe(json);
});

/** Returns the status of a conditional request. Every answer shows the list's tag or an error. */
async function statusIf(headers: Record<string, string>): Promise<number> {
  const response = await send(LIST, { key, headers });
  quotaOf(response);
  if (response.status === 412) {
    await expectError(response, 412, "precondition_failed");
  } else {
    expect(response.headers.get("ETag")).toMatch(/^"[!#-~]+"$/);
    expect(response.headers.get("Cache-Control")).toBe("private, no-cache");
    await response.body?.cancel();
  }
  return response.status;
}
const entityTag = async () => (await send(LIST, { key, method: "HEAD" })).headers.get("ETag")!;

test("a request with the list's entity tag in If-None-Match receives 304 until the list changes", async () => {
  await placeManyOrders(9_000);
  const tag = await entityTag();
  const statusOf = (condition: string) => statusIf({ "If-None-Match": condition });
  for (const condition of [tag, `"other", W/"another" ,${tag}`, `W/${tag},"a,b"`, "*"])
    expect(await statusOf(condition), condition).toBe(304);
  const others = ['"other"', tag.slice(1, -1), `${tag.slice(0, -2)}"`, ""];
  others.push(`"') OR 1=1 --"`, Array.from({ length: 5_000 }, (_, n) => `"${n}"`).join());
  for (const condition of others) expect(await statusOf(condition), condition).toBe(200);
  await send(`${LIST}/5`, { key, method: "DELETE" });
  expect(await statusOf(tag)).toBe(200);
  expect(await statusOf(await entityTag())).toBe(304);
});

test("a list whose If-Match does not hold strongly is 412, before If-None-Match", async () => {
  await placeManyOrders(2);
  const tag = await entityTag();
  const statusOf = (match: string, others = {}) => statusIf({ "If-Match": match, ...others });
  for (const match of ["*", `"other", ${tag}`]) expect(await statusOf(match)).toBe(200);
  for (const match of [`W/${tag}`, '"other"', ""]) expect(await statusOf(match), match).toBe(412);
  expect(await statusOf(tag, { "If-None-Match": tag })).toBe(304);
  expect(await statusOf('"other"', { "If-None-Match": tag })).toBe(412);
});
