import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import { ApiKeys } from "../../../src/worker/entrypoints/api-keys.ts";
import { Orders } from "../../../src/worker/entrypoints/orders.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { brokenLimiters } from "../../support/faults.ts";
import { eventLines, events } from "../../support/written-lines.ts";

// test/process/door.node.test.ts calls the entrypoints through service bindings.

const context = Object.assign(createExecutionContext(), { props: {} });
const keysWith = (bindings = {}) => new ApiKeys(context as never, { ...env, ...bindings });
const keys = keysWith();

test("a page has 100 keys, and usage up to 366 days of one key", async () => {
  const created = await Promise.all(Array.from({ length: 101 }, () => createApiKey()));
  const ids = created.map(({ id }) => id).toSorted();
  expect(await keys.list()).toMatchObject({ keys: { length: 100 }, next: ids[99] });
  await env.KEYS.prepare(
    `WITH RECURSIVE n (n) AS (SELECT -1 UNION ALL SELECT n + 1 FROM n WHERE n < 400)
     INSERT INTO key_usage SELECT id, date('now', -n || ' days'), 1, 0, 0, 0, 0, 0, 0, 0, 0
     FROM n, api_keys WHERE id IN (?, ?)`,
  )
    .bind(ids[0], ids[1])
    .run();
  for (const days of [3, 366]) {
    expect(await keys.usage(ids[0]!, { days })).toMatchObject({ days: { length: days } });
  }
});

test("an unknown setting, a page of no keys and a year of five digits are refused", async () => {
  const late = { id: 1n, shipDate: new Date("+010000-01-01") };
  for (const [answer, message] of [
    [keys.update("key_a", { color: 1 } as object), /^settings: .*color/],
    [keys.list({ limit: 0 }), /^limit: .*>=1/],
    [new Orders(context, env).place([late]), /^orders\[0\]\.shipDate: .*9999/],
  ] as const) {
    const refused = { ok: false, code: "invalid_input", message: expect.stringMatching(message) };
    expect(await answer).toEqual(refused);
  }
});
test("a caller learns whether to call again, and the log why", async () => {
  const { id } = await createApiKey();
  await expect(keysWith(brokenLimiters()).quota(id)).rejects.toThrow(/its log/);
  expect(events()).toEqual(["quota_unavailable", "internal_error"]);
  vi.spyOn(env.KEYS, "prepare").mockImplementation(() => {
    throw new Error("D1_ERROR: Network connection lost.");
  });
  await expect(keys.get(id)).rejects.toThrow(/^The store cannot reach its database.*call again/);
  expect(eventLines().at(-1)).toMatchObject({ error: expect.stringContaining("lost") });
});
