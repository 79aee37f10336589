import { applyD1Migrations, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { DatabaseName } from "../../../src/worker/db/availability.ts";
import { migrateDatabases } from "../../support/migrated-databases.ts";
import { LIST, send } from "../../support/service.ts";
import { KEYS, LISTED, PENDING_ID, SHIPPED_ID, VERSIONS } from "./versions.ts";

const DATABASES = { orders: env.ORDERS, keys: env.KEYS };
/** A number of orders that does not fit into one segment. */
const MANY = 20_000;

/** Reads all rows of the tables. Returns SQL literals, because D1 rounds large integers. */
async function contents(database: D1Database): Promise<Record<string, Record<string, string>[]>> {
  const { results: columns } = await database
    .prepare(
      `SELECT m.name AS name, c.name AS "column" FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
       WHERE m.type = 'table' AND m.name NOT LIKE '\\_cf%' ESCAPE '\\' AND m.name NOT LIKE 'sqlite%'
         AND m.name <> 'd1_migrations'`,
    )
    .all<{ name: string; column: string }>();
  const members = Object.groupBy(columns, ({ name }) => name);
  const rowsOf = async (name: string) => {
    const pairs = (members[name] ?? []).map(({ column }) => `'${column}', quote("${column}")`);
    const sql = `SELECT json_object(${pairs.join()}) AS row FROM "${name}" ORDER BY row`;
    const { results } = await database.prepare(sql).all<{ row: string }>();
    return results.map(({ row }) => JSON.parse(row) as Record<string, string>);
  };
  const tables = Object.keys(members).map(async (name) => [name, await rowsOf(name)] as const);
  return Object.fromEntries(await Promise.all(tables));
}

/** Returns the tables without rows, and the columns that are `NULL` in every row. */
async function emptyParts(database: D1Database): Promise<string[]> {
  const tables = Object.entries(await contents(database));
  return tables.flatMap(([table, rows]) => {
    if (rows[0] === undefined) return [table];
    const columns = Object.keys(rows[0]);
    const empty = columns.filter((column) => rows.every((row) => row[column] === "NULL"));
    return empty.map((column) => `${table}.${column}`);
  });
}

const namesOf = (database: DatabaseName) => env.TEST_MIGRATIONS[database].map(({ name }) => name);

/** Every version of every database. A version is identified by its last migration. */
const ALL_VERSIONS = (["orders", "keys"] as const).flatMap((database) =>
  namesOf(database).map((name) => ({ database, name })),
);

/** Creates a database with all migrations up to `name` and their test data. */
async function createDatabase(database: DatabaseName, name: string): Promise<void> {
  const d1 = DATABASES[database];
  const migrations = env.TEST_MIGRATIONS[database];
  for (const migration of migrations.slice(0, namesOf(database).indexOf(name) + 1)) {
    await applyD1Migrations(d1, [migration]);
    const statements = (VERSIONS[database][migration.name]?.data ?? "").split(";\n");
    await d1.batch(statements.map((statement) => d1.prepare(statement)));
  }
}

/** Creates a store with one database in the version `name` and the other in the current one. */
async function createStore(database: DatabaseName, name: string): Promise<void> {
  await reset();
  const other = database === "orders" ? "keys" : "orders";
  await createDatabase(database, name);
  await createDatabase(other, namesOf(other).at(-1) ?? "");
}

test.for(["orders", "keys"] as const)(
  "versions.ts has test data and queries for every migration of the %s database",
  async (database) => {
    const names = namesOf(database);
    const advice =
      "add test data for the new tables and columns, and the Worker's new queries, to versions.ts";
    expect(Object.keys(VERSIONS[database]), advice).toEqual(names);
    await createStore(database, names.at(-1) ?? "");
    // `orders` contains no cancelled orders, and `order_bulk_change` has rows only within a
    // transaction.
    const alwaysEmpty = { orders: ["order_bulk_change", "orders.cancelled_at"], keys: [] };
    const empty = await emptyParts(DATABASES[database]);
    expect(empty.toSorted(), advice).toEqual(alwaysEmpty[database]);
  },
);

describe.each(ALL_VERSIONS)(
  "the $database database of $name, migrated to the current version",
  ({ database, name }) => {
    const d1 = DATABASES[database];

    test("keeps the values of every column, and the results of the queries of its own Worker, which runs until the next deployment", async () => {
      await createStore(database, name);
      const queries = namesOf(database)
        .slice(0, namesOf(database).indexOf(name) + 1)
        .flatMap((version) => VERSIONS[database][version]?.queries ?? []);
      const answers = () =>
        Promise.all(queries.map(async (query) => (await d1.prepare(query).all()).results));
      const [answersBefore, contentsBefore] = [await answers(), await contents(d1)];
      await migrateDatabases();
      expect(await answers()).toEqual(answersBefore);
      expect(await contents(d1)).toMatchObject(contentsBefore);
    });

    test("works with the current Worker", async () => {
      await createStore(database, name);
      await migrateDatabases();
      const statusOf = async (key: string) => (await send(LIST, { key })).status;
      expect(await statusOf(KEYS.revoked)).toBe(401);
      expect(await statusOf(KEYS.expired)).toBe(401);

      const key = KEYS.valid;
      const list = await send(LIST, { key });
      expect(await list.text()).toBe(`[${LISTED.join()}]`);
      const cancel = async (id: string) =>
        (await send(`${LIST}/${id}`, { method: "DELETE", key })).status;
      expect([await cancel(PENDING_ID), await cancel(PENDING_ID)]).toEqual([204, 404]);
      expect(await cancel(SHIPPED_ID)).toBe(409);
      const changed = await send(LIST, { key });
      expect(await changed.text()).toBe(
        `[${LISTED.filter((order) => !order.includes(`"id":${PENDING_ID}`)).join()}]`,
      );
      expect(changed.headers.get("ETag")).not.toBe(list.headers.get("ETag"));

      const turnBack = env.ORDERS.prepare(
        `UPDATE orders SET status = 'pending' WHERE id = ${SHIPPED_ID}`,
      );
      await expect(turnBack.run()).rejects.toThrow("a shipped order cannot be turned back");
    });
  },
);

test.each(namesOf("orders"))(
  "all orders of %s, migrated to the current version, belong to segments",
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
