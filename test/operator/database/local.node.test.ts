import { globSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, expect, test } from "vitest";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { PROJECT_ROOT } from "../../../src/operator/wrangler.ts";
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
