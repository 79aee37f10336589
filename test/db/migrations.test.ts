import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { send } from "../fixtures/service.ts";
import { contents, emptyColumns, tables } from "./table-contents.ts";
import { KEYS, LISTED, PENDING_ID, SHIPPED_ID, VERSIONS } from "./versions.ts";

const MIGRATIONS = env.TEST_MIGRATIONS;
const NAMES = MIGRATIONS.map(({ name }) => name);

/** Makes the store of the version whose last migration is `name`, with data of every version up to it. */
async function createStore(name: string): Promise<void> {
  await reset();
  for (const migration of MIGRATIONS.slice(0, NAMES.indexOf(name) + 1)) {
    await applyD1Migrations(env.DB, [migration]);
    const statements = (VERSIONS[migration.name]?.data ?? "").split(";\n");
    await env.DB.batch(statements.map((statement) => env.DB.prepare(statement)));
  }
}

test("every migration has data for the stores of its version, and queries of its Worker", async () => {
  const advice =
    "add what stores hold since this migration, and what the Worker asks, to versions.ts";
  expect(Object.keys(VERSIONS), advice).toEqual(NAMES);
  await createStore(NAMES.at(-1) ?? "");
  expect(await emptyColumns(), advice).toEqual([]);
});

describe.each(NAMES)("a store of %s, migrated to the present", (name) => {
  test("holds all that it held, in every column", async () => {
    await createStore(name);
    const known = await tables();
    const before = await contents(known);
    await applyD1Migrations(env.DB, MIGRATIONS);
    // What triggers and migrations make is not of the version before.
    if (before["order_list"]?.length === 0) delete before["order_list"];
    expect(await contents(known)).toMatchObject(before);
  });

  test("answers what its own Worker asks, until the next one is deployed", async () => {
    await createStore(name);
    const queries = NAMES.slice(0, NAMES.indexOf(name) + 1).flatMap(
      (version) => VERSIONS[version]?.queries ?? [],
    );
    const answers = () =>
      Promise.all(queries.map(async (query) => (await env.DB.prepare(query).all()).results));
    const before = await answers();
    await applyD1Migrations(env.DB, MIGRATIONS);
    expect(await answers()).toEqual(before);
  });

  test("serves", async () => {
    await createStore(name);
    await applyD1Migrations(env.DB, MIGRATIONS);
    const statusOf = async (key: string) => (await send("/v1/store/orders", { key })).status;
    expect(await statusOf(KEYS.revoked)).toBe(401);
    expect(await statusOf(KEYS.expired)).toBe(401);

    const key = KEYS.valid;
    const list = await send("/v1/store/orders", { key });
    expect(await list.text()).toBe(`[${LISTED.join()}]`);
    const cancel = async (id: string) =>
      (await send(`/v1/store/orders/${id}`, { method: "DELETE", key })).status;
    expect([await cancel(PENDING_ID), await cancel(PENDING_ID)]).toEqual([204, 404]);
    expect(await cancel(SHIPPED_ID)).toBe(409);
    const changed = await send("/v1/store/orders", { key });
    expect(await changed.text()).toBe(
      `[${LISTED.filter((order) => !order.includes(`"id":${PENDING_ID}`)).join()}]`,
    );
    expect(changed.headers.get("ETag")).not.toBe(list.headers.get("ETag"));

    const turnBack = env.DB.prepare(
      `UPDATE orders SET status = 'pending' WHERE id = ${SHIPPED_ID}`,
    );
    await expect(turnBack.run()).rejects.toThrow("a shipped order cannot be turned back");
  });
});
