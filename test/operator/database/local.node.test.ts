import { existsSync, globSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, describe, expect, test } from "vitest";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { prepareStore } from "../../../src/operator/start/sample-store.ts";
import { PROGRAMS } from "../../../src/operator/programs.ts";
import { PROJECT_ROOT } from "../../../src/operator/wrangler.ts";
import type { Outcome } from "../deploy/run-command.ts";
import { orders as orderTable } from "../../../src/schema/orders.ts";
import { runInProcess } from "../in-process.ts";
import { StoreFolder } from "../store-folder.ts";

let store = new StoreFolder();
afterEach(() => {
  store.remove();
  store = new StoreFolder();
});

/** Opens the only database file of the store, as another program would. */
function databaseFile(): DatabaseSync {
  const [file = ""] = globSync(`${store.path}/v3/d1/*/*.sqlite`);
  return new DatabaseSync(file);
}

function valuesOf(sqlite: DatabaseSync, sql: string): unknown[] {
  const rows = sqlite.prepare(sql).all();
  return rows.flatMap((row) => Object.values(row));
}

test.each(["orders", "keys"] as const)(
  "a store that has its %s is not new, so it gets no sample data",
  async (name) => {
    await (await openLocalDatabase(store.path, name)).close();
    expect(await prepareStore(store.path, false)).toEqual([]);
    const orders = await openLocalDatabase(store.path, "orders");
    expect(await orders.orm.select().from(orderTable)).toEqual([]);
    await orders.close();
  },
);

test("a new database records every migration for wrangler, and is in WAL mode like workerd's", async () => {
  const database = await openLocalDatabase(store.path, "orders");
  await database.close();
  expect(database.isNew).toBe(true);
  using sqlite = databaseFile();
  const migrations = readdirSync(join(PROJECT_ROOT, "migrations/orders"));
  expect(valuesOf(sqlite, "SELECT name FROM d1_migrations ORDER BY id")).toEqual(
    migrations.filter((name) => name.endsWith(".sql")).toSorted(),
  );
  expect(valuesOf(sqlite, "PRAGMA journal_mode")).toEqual(["wal"]);
});

test("a new database that is opened several times at once is migrated once", async () => {
  const opened = await Promise.all([0, 1, 2].map(() => openLocalDatabase(store.path, "keys")));
  expect(opened.filter(({ isNew }) => isNew)).toHaveLength(1);
  await Promise.all(opened.map((database) => database.close()));
});

test("a migration that fails leaves the database unchanged, and the error names the store", async () => {
  await (await openLocalDatabase(store.path, "orders")).close();
  using sqlite = databaseFile();
  sqlite.exec("DROP TABLE d1_migrations");
  const tables = "SELECT name FROM sqlite_master ORDER BY name";
  const before = valuesOf(sqlite, tables);
  await expect(openLocalDatabase(store.path, "orders")).rejects.toThrow(
    `the store in ${store.path} could not be opened: table`,
  );
  expect(valuesOf(sqlite, tables)).toEqual(before);
});

describe("in a folder without a store", () => {
  const missing = () => join(store.path, "strore");
  async function run(line: string, input?: string): Promise<Outcome> {
    const [name = "", ...args] = line.split(" ");
    const program = await PROGRAMS[name]!();
    return runInProcess(program, [...args, "--persist-to", missing()], input);
  }

  test.each([
    "keys list",
    "keys show key_a",
    "keys find x7aq",
    "keys update key_a --name B",
    "keys rotate key_a",
    "keys revoke key_a",
    "keys reset key_a",
    "keys audit",
    "keys bans",
    "keys usage",
    "orders export",
    "orders export /dev/null --one-moment",
    "orders import /dev/null --resume",
    "orders purge --cancelled-before 2020-01-01",
    "verify --read-only",
  ])("%s is refused and makes nothing", async (line) => {
    const { status, stderr } = await run(line);
    expect(status).toBe(1);
    expect(stderr).toContain(`error: there is no store in ${missing()}, so nothing was done`);
    expect(existsSync(missing())).toBe(false);
  });

  test.each([
    ["keys create --plan free --name A", undefined],
    ["orders import -", '{"id":1}'],
  ])("%s makes a store and says so", async (line, input) => {
    const { status, stderr } = await run(line, input);
    expect(status).toBe(0);
    expect(stderr).toMatch(new RegExp(`^Making a new store in ${missing()}\\.$`, "m"));
    expect((await run("keys list --json")).status).toBe(0);
    expect((await run("orders export")).status).toBe(0);
  });
});
