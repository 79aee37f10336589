import { DatabaseSync } from "node:sqlite";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import { StoreFolder } from "../store-folder.ts";

const store = new StoreFolder();
beforeAll(() => store.make());
afterAll(() => store.remove());

const LOCK = "BEGIN IMMEDIATE; UPDATE d1_migrations SET applied_at = datetime('now')";

it("commands succeed although another process locks the databases again and again", async () => {
  const files = [databaseFile(store.path, "orders"), databaseFile(store.path, "keys")];
  const databases = files.map((file) => new DatabaseSync(file));
  const lockOrCommit = () => {
    for (const sqlite of databases) sqlite.exec(sqlite.isTransaction ? "COMMIT" : LOCK);
  };
  lockOrCommit();
  const writer = setInterval(lockOrCommit, 20);
  const orders = Array.from({ length: 100 }, (_, id) => `{"id":${id}}\n`).join("");
  const names = ["one", "two", "three"];
  await Promise.all([
    store.ordersJson(["import", "-"], orders),
    ...names.map((name) => store.keysJson("create", "--plan", "free", "--name", name)),
  ]);
  clearInterval(writer);
  for (const sqlite of databases) sqlite.close();
  expect((await store.orders(["export"])).stdout.match(/\n/g)).toHaveLength(100);
  expect(await store.keysJson("list")).toHaveLength(names.length);
});

it("two commands that find a new database at the same time migrate it once", async () => {
  const fresh = new StoreFolder();
  const opened = await Promise.all([1, 2].map(() => openLocalDatabase(fresh.path, "keys")));
  const applied = await opened[0]!.orm.all(sql`SELECT name FROM d1_migrations`);
  expect(applied).toHaveLength(readMigrations("keys").length);
  for (const database of opened) database[Symbol.dispose]();
  fresh.remove();
});
