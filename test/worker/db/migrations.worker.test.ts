import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { DatabaseName } from "../../../src/worker/db/availability.ts";
import { migrateDatabases } from "../../support/migrated-databases.ts";
import { send } from "../../support/service.ts";
import { contents, emptyColumns, tables } from "./table-contents.ts";
import { KEYS, LISTED, PENDING_ID, SHIPPED_ID, VERSIONS } from "./versions.ts";

const DATABASES = { orders: env.ORDERS, keys: env.KEYS };
/** So many orders need several segments. */
const MANY = 20_000;

const namesOf = (database: DatabaseName) => env.TEST_MIGRATIONS[database].map(({ name }) => name);

/** Every version of every database, by its last migration. */
const ALL_VERSIONS = (["orders", "keys"] as const).flatMap((database) =>
  namesOf(database).map((name) => ({ database, name })),
);

/** Makes a database of the version whose last migration is `name`, with data of every version up to it. */
async function createDatabase(database: DatabaseName, name: string): Promise<void> {
  const d1 = DATABASES[database];
  const migrations = env.TEST_MIGRATIONS[database];
  for (const migration of migrations.slice(0, namesOf(database).indexOf(name) + 1)) {
    await applyD1Migrations(d1, [migration]);
    const statements = (VERSIONS[database][migration.name]?.data ?? "").split(";\n");
    await d1.batch(statements.map((statement) => d1.prepare(statement)));
  }
}

/** Makes a store with one database of that version, and the other one of the present. */
async function createStore(database: DatabaseName, name: string): Promise<void> {
  await reset();
  const other = database === "orders" ? "keys" : "orders";
  await createDatabase(database, name);
  await createDatabase(other, namesOf(other).at(-1) ?? "");
}

test.for(["orders", "keys"] as const)(
  "every migration of the %s has data for the stores of its version, and queries of its Worker",
  async (database) => {
    const names = namesOf(database);
    const advice =
      "add what stores hold since this migration, and what the Worker asks, to versions.ts";
    expect(Object.keys(VERSIONS[database]), advice).toEqual(names);
    await createStore(database, names.at(-1) ?? "");
    // Orders leave `orders` when they are cancelled; a bulk change lasts no longer than a transaction.
    const alwaysEmpty = {
      orders: ["order_bulk_change.changed", "order_bulk_change.id", "orders.cancelled_at"],
      keys: [],
    };
    const empty = await emptyColumns(DATABASES[database]);
    expect(empty.toSorted(), advice).toEqual(alwaysEmpty[database]);
  },
);

describe.each(ALL_VERSIONS)("$database of $name, migrated to the present", ({ database, name }) => {
  const d1 = DATABASES[database];

  test("hold all that they held, in every column", async () => {
    await createStore(database, name);
    const known = await tables(d1);
    const before = await contents(d1, known);
    await migrateDatabases();
    expect(await contents(d1, known)).toMatchObject(before);
  });

  test("answer what their own Worker asks, until the next one is deployed", async () => {
    await createStore(database, name);
    const queries = namesOf(database)
      .slice(0, namesOf(database).indexOf(name) + 1)
      .flatMap((version) => VERSIONS[database][version]?.queries ?? []);
    const answers = () =>
      Promise.all(queries.map(async (query) => (await d1.prepare(query).all()).results));
    const before = await answers();
    await migrateDatabases();
    expect(await answers()).toEqual(before);
  });

  test("serve", async () => {
    await createStore(database, name);
    await migrateDatabases();
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

    const turnBack = env.ORDERS.prepare(
      `UPDATE orders SET status = 'pending' WHERE id = ${SHIPPED_ID}`,
    );
    await expect(turnBack.run()).rejects.toThrow("a shipped order cannot be turned back");
  });
});

test.each(namesOf("orders"))(
  "orders of %s, migrated to the present, are in segments",
  async (name) => {
    await createStore("orders", name);
    await env.ORDERS.prepare(
      `WITH RECURSIVE n (id) AS (SELECT 10 UNION ALL SELECT id + 1 FROM n WHERE id < 9 + ${MANY})
       INSERT INTO orders (id) SELECT id FROM n`,
    ).run();
    await migrateDatabases();
    const { results } = await env.ORDERS.prepare(
      `SELECT first_id || '' AS firstId, count, (
         SELECT count(*) FROM orders WHERE id >= first_id AND (id < next_id OR next_id IS NULL)
       ) AS found
       FROM (SELECT *, lead(first_id) OVER (ORDER BY first_id) AS next_id FROM order_segments)`,
    ).all<{ firstId: string; count: number; found: number }>();
    expect(results[0]?.firstId).toBe("-9223372036854775808");
    expect(results.map(({ count }) => count)).toEqual(results.map(({ found }) => found));
    const total = results.reduce((sum, { count }) => sum + count, 0);
    expect(total).toBe(MANY + LISTED.length);
    expect(Math.max(...results.map(({ count }) => count))).toBeLessThanOrEqual(12_288);
  },
);
