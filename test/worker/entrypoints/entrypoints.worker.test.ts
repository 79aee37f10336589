import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import { d1Database } from "../../../src/store/d1-database.ts";
import { findApiKey } from "../../../src/store/keys/find-keys.ts";
import { ApiKeys } from "../../../src/worker/entrypoints/api-keys.ts";
import { Orders } from "../../../src/worker/entrypoints/orders.ts";
import service from "../../../src/worker/index.ts";
import { limiter } from "../../../src/worker/isolate.ts";
import { limitedKeyOf } from "../../../src/worker/limiter/object-call.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { DAY_MS, MINUTE_MS } from "../../support/clock.ts";
import { brokenLimiters } from "../../support/faults.ts";
import { eventLines, events } from "../../support/written-lines.ts";

// test/process/door.node.test.ts calls the entrypoints of a served Worker.

const context = Object.assign(createExecutionContext(), { props: {} });
const keysWith = (bindings = {}) => new ApiKeys(context as never, { ...env, ...bindings });
const keys = keysWith();

test("a key is created near a region; a former secret stays for a day or as long as is said; the trail names the door", async () => {
  const { id }: any = await keys.create({ name: "Zoo", plan: "free", near: "weur" });
  for (const [options, graceMs] of [
    [undefined, DAY_MS],
    [{ graceSeconds: 3_600 }, 60 * MINUTE_MS],
  ] as const) {
    const atMs = Date.now();
    await keys.rotate(id, options);
    const { locationHint, formerKeyEndsAt } = (await findApiKey(d1Database(env.KEYS).orm, id))!;
    expect(locationHint).toBe("weur");
    expect(Math.abs(formerKeyEndsAt!.getTime() - atMs - graceMs)).toBeLessThan(30 * MINUTE_MS);
  }
  const trail = await env.KEYS.prepare("SELECT DISTINCT actor FROM key_changes").all();
  expect(trail.results).toEqual([{ actor: "service binding" }]);
});

test("a page has 100 keys, and usage 14 days of one key, unless another number is given", async () => {
  const created = await Promise.all(Array.from({ length: 101 }, () => createApiKey()));
  const ids = created.map(({ id }) => id).toSorted();
  expect(await keys.list()).toMatchObject({ keys: { length: 100 }, next: ids[99] });
  const insert = env.KEYS.prepare(
    `WITH RECURSIVE n (n) AS (SELECT -1 UNION ALL SELECT n + 1 FROM n WHERE n < 400)
     INSERT INTO key_usage SELECT id, date('now', -n || ' days'), 1, 0, 0, 0, 0, 0, 0, 0, 0
     FROM n, api_keys WHERE id IN (?, ?)`,
  );
  await insert.bind(ids[0], ids[1]).run();
  for (const options of [undefined, { days: 3 }, { days: 366 }]) {
    const days = { length: options?.days ?? 14 };
    expect(await keys.usage(ids[0]!, options)).toMatchObject({ days });
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

test("a door knows what requests were told of a key", async () => {
  const { id, key } = await createEnterpriseKey(1, 1);
  const headers = { Authorization: `Bearer ${key}` };
  for (const status of [404, 429]) {
    const request = new Request<unknown, any>("https://store.example/v1/none", { headers });
    expect((await service.fetch(request, env, createExecutionContext())).status).toBe(status);
  }
  const record = await findApiKey(d1Database(env.KEYS).orm, id);
  expect(limiter.isRefusing(limitedKeyOf(record!))).toBe(true);
});
