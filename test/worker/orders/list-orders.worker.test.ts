import { env } from "cloudflare:workers";
import { stringify } from "lossless-json";
import { beforeEach, expect, test } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { placeManyOrders, placeOrder } from "../../support/order-fixture.ts";
import { LIST, send, startService } from "../../support/service.ts";

let key: string;
beforeEach(async () => void ({ key } = await createApiKey({ plan: "business" })));

test("orders with any fields of any length are listed in ascending id, exactly as they were stored", async () => {
  const powers = Array.from({ length: 19 }, (_, digits) => 10n ** BigInt(digits));
  const bounds = [INT64_MIN, INT64_MIN + 1n, INT64_MAX - 1n, INT64_MAX, 0n, 2n ** 53n + 1n];
  const ids = [...bounds, ...powers, ...powers.map((power) => -power)];
  // Every id, with one combination of the other fields after another.
  const orders = ids.map((id, index) => {
    const other = (step: number) => ids[(index * 5 + step) % ids.length]!;
    const shipDate = `${["2026-11-20", "0000-01-01", "9999-12-31"][index % 3]}T23:59:59.999Z`;
    const fields = { petId: other(7), quantity: other(11), shipDate, complete: index % 5 > 2 };
    const kept = Object.entries(fields).filter((_, bit) => ((index >> bit) & 1) === 0);
    return { id, ...Object.fromEntries(kept) } as { id: bigint } & Partial<typeof fields>;
  });
  for (const { id, ...fields } of orders) await placeOrder(id, fields);
  const sorted = orders.toSorted((one, other) => (one.id < other.id ? -1 : 1));
  expect(await (await send(LIST, { key })).text()).toBe(stringify(sorted));
});

test("a list is 412 if If-Match does not hold strongly, else 304 if If-None-Match holds, until the list changes", async () => {
  await placeManyOrders(9_000);
  /** Every answer shows the quota, and the list's tag or an error. */
  const statusIf = async (headers: Record<string, string>, service = send) => {
    const response = await service(LIST, { key, headers });
    quotaOf(response);
    if (response.status === 412) {
      await expectError(response, 412, "precondition_failed");
    } else {
      expect(response.headers.get("ETag")).toMatch(/^"[!#-~]+"$/);
      expect(response.headers.get("Cache-Control")).toBe("private, no-cache");
      await response.body?.cancel();
    }
    return response.status;
  };
  const entityTag = async () => (await send(LIST, { key, method: "HEAD" })).headers.get("ETag")!;
  const tag = await entityTag();
  const [shorter, longer] = [`${tag.slice(0, -2)}"`, `"x${tag.slice(1)}`];
  // Where the isolate has no list yet, the database compares the tags.
  expect(await statusIf({ "If-None-Match": longer }, startService())).toBe(200);
  const others = ['"other"', tag.slice(1, -1), shorter, longer, "", `"') OR 1=1 --"`];
  others.push(Array.from({ length: 5_000 }, (_, n) => `"${n}"`).join());
  for (const [status, name, conditions, more] of [
    [304, "If-None-Match", [tag, `"other", W/"another" ,${tag}`, `W/${tag},"a,b"`, "*"], {}],
    [200, "If-None-Match", others, {}],
    [200, "If-Match", ["*", `"other", ${tag}`], {}],
    [412, "If-Match", [`W/${tag}`, '"other"', ""], {}],
    [304, "If-Match", [tag], { "If-None-Match": tag }],
    [412, "If-Match", ['"other"'], { "If-None-Match": tag }],
  ] as const) {
    for (const condition of conditions)
      expect(await statusIf({ ...more, [name]: condition }), condition).toBe(status);
  }
  for (const change of [
    () => send(`${LIST}/5`, { key, method: "DELETE" }),
    () => env.ORDERS.exec("UPDATE orders SET status = 'shipped' WHERE id = 4"),
  ]) {
    const before = await entityTag();
    await change();
    expect(await statusIf({ "If-None-Match": before })).toBe(200);
    expect(await statusIf({ "If-None-Match": await entityTag() })).toBe(304);
  }
});
