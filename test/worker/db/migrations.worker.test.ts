import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { send } from "../../support/service.ts";
import { contents, emptyColumns, tables } from "./table-contents.ts";
import { KEYS, LISTED, PENDING_ID, SHIPPED_ID, VERSIONS } from "./versions.ts";

const MIGRATIONS = env.TEST_MIGRATIONS;
/** The number of orders that three segments hold. */
const MANY = 20_000;
const NAMES = MIGRATIONS.map(({ name }) => name);

/** Makes a store whose last migration is `name`, with the data of every version up to that one. */
async function createStore(name: string): Promise<void> {
  await reset();
  for (const migration of MIGRATIONS.slice(0, NAMES.indexOf(name) + 1)) {
    await applyD1Migrations(env.DB, [migration]);
    const statements = (VERSIONS[migration.name]?.data ?? "").split(";\n");
    await env.DB.batch(statements.map((statement) => env.DB.prepare(statement)));
  }
}

test("every migration has data of its tables and queries of its Worker", async () => {
  const advice =
    "Add the data of this migration's tables and the queries of its Worker to versions.ts.";
  expect(Object.keys(VERSIONS), advice).toEqual(NAMES);
  await createStore(NAMES.at(-1) ?? "");
  // Orders leave `orders` when they are cancelled; a bulk change lasts no longer than a transaction.
  const alwaysEmpty = ["order_bulk_change.id", "order_bulk_change.changed", "orders.cancelled_at"];
  expect((await emptyColumns()).toSorted(), advice).toEqual(alwaysEmpty.toSorted());
});

describe.each(NAMES)("a store of %s, migrated to the present", (name) => {
  test("keeps its data in every column", async () => {
    await createStore(name);
    const known = await tables();
    const before = await contents(known);
    await applyD1Migrations(env.DB, MIGRATIONS);
    // Triggers and migrations have filled the tables that were empty.
    if (before["order_list"]?.length === 0) delete before["order_list"];
    // Cancelled orders have a table of their own.
    before["orders"] = before["orders"]?.filter((row) => !row.includes("'cancelled'")) ?? [];
    expect(await contents(known)).toMatchObject(before);
  });

  test("keeps the record of every cancelled order", async () => {
    await createStore(name);
    await applyD1Migrations(env.DB, MIGRATIONS);
    const record = env.DB.prepare(
      "SELECT id, pet_id, cancelled_at FROM cancelled_orders WHERE id = 3",
    );
    expect((await record.all()).results).toEqual([
      { id: 3, pet_id: 7, cancelled_at: 1_795_000_000_123 },
    ]);
    const left = env.DB.prepare("SELECT count(*) AS count FROM orders WHERE status = 'cancelled'");
    expect(await left.first("count")).toBe(0);
  });

  test("has all orders in segments", async () => {
    await createStore(name);
    const isBefore = !(await tables()).some((table) => table.name === "order_segments");
    await env.DB.prepare(
      `WITH RECURSIVE n (id) AS (SELECT 10 UNION ALL SELECT id + 1 FROM n WHERE id < 9 + ${MANY})
       INSERT INTO orders (id) SELECT id FROM n`,
    ).run();
    await applyD1Migrations(env.DB, MIGRATIONS);
    const { results } = await env.DB.prepare(
      `SELECT first_id || '' AS firstId, count, (
         SELECT count(*) FROM orders WHERE id >= first_id AND (id < next_id OR next_id IS NULL)
       ) AS found
       FROM (SELECT *, lead(first_id) OVER (ORDER BY first_id) AS next_id FROM order_segments)`,
    ).all<{ firstId: string; count: number; found: number }>();
    expect(results[0]?.firstId).toBe("-9223372036854775808");
    expect(results.map(({ count }) => count)).toEqual(results.map(({ found }) => found));
    const total = results.reduce((sum, { count }) => sum + count, 0);
    expect(total).toBe(MANY + LISTED.length);
    const cut = [8_192, 8_192, MANY + LISTED.length - 2 * 8_192];
    if (isBefore) expect(results.map(({ count }) => count)).toEqual(cut);
    else expect(Math.max(...results.map(({ count }) => count))).toBeLessThanOrEqual(12_288);
  });

  test("answers the queries of its own Worker, which serves until the next one is deployed", async () => {
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

  test("serves requests", async () => {
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
