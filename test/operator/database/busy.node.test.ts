import { globSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import * as retrying from "../../../src/operator/database/retry-while-busy.ts";
import { StoreFolder } from "../store-folder.ts";

// `beforeWork` is called before each database operation, `onBusy` after each failure.
const beforeWork = vi.fn<() => unknown>();
const onBusy = vi.fn<() => void>();
const { retryWhileBusy } = retrying;
vi.spyOn(retrying, "retryWhileBusy").mockImplementation((work) => {
  const waited = beforeWork();
  return retryWhileBusy(async () => {
    await waited;
    return work().catch((error: Error) => {
      onBusy();
      throw error;
    });
  });
});

const store = new StoreFolder();

beforeAll(() => store.make());
beforeEach(() => {
  beforeWork.mockReset();
  onBusy.mockReset();
});
afterAll(() => store.remove());

const createKey = (name: string) => store.keysJson("create", "--plan", "free", "--name", name);

it("commands succeed although another process writes before each of their statements", async () => {
  const files = globSync(`${store.path}/v3/d1/*/????????????????*.sqlite`);
  expect(files).toHaveLength(2);
  const databases = files.map((file) => new DatabaseSync(file));
  const commit = () => {
    for (const sqlite of databases) if (sqlite.isTransaction) sqlite.exec("COMMIT");
  };
  beforeWork.mockImplementation(() => {
    for (const sqlite of databases) {
      if (sqlite.isTransaction) continue;
      sqlite.exec("BEGIN IMMEDIATE; UPDATE d1_migrations SET applied_at = datetime('now')");
    }
  });
  onBusy.mockImplementation(commit);
  const names = ["one", "two", "three"];
  const orders = Array.from({ length: 100 }, (_, id) => `{"id":${id}}\n`).join("");
  const imports = store.ordersJson(["import", "-"], orders);
  const [imported] = await Promise.all([imports, ...names.map(createKey)]);
  commit();
  for (const sqlite of databases) sqlite.close();
  expect(onBusy.mock.calls.length).toBeGreaterThanOrEqual(names.length);
  expect(imported).toEqual({ imported: 100 });
  beforeWork.mockReset();
  expect(await store.keysJson("list")).toHaveLength(names.length);
});

it("two commands that find a new database at the same time migrate it once", async () => {
  const fresh = new StoreFolder();
  const { promise: bothCame, resolve } = Promise.withResolvers<void>();
  beforeWork.mockReturnValueOnce(bothCame).mockImplementationOnce(resolve);
  const opened = await Promise.all([1, 2].map(() => openLocalDatabase(fresh.path, "keys")));
  const applied = await opened[0]!.orm.all(sql`SELECT name FROM d1_migrations`);
  expect(applied).toHaveLength(readMigrations("keys").length);
  await Promise.all(opened.map((database) => database.close()));
  fresh.remove();
});

it("a lock is waited for during half a minute, and no other failure is retried", async () => {
  vi.useFakeTimers();
  const locked = vi.fn(() =>
    Promise.reject(new Error("D1_ERROR: database is locked: SQLITE_BUSY")),
  );
  const failed = expect(retryWhileBusy(locked)).rejects.toThrow(
    "locked the database for 30 seconds",
  );
  await vi.advanceTimersByTimeAsync(25_000);
  const early = locked.mock.calls.length;
  await vi.advanceTimersByTimeAsync(6_000);
  await failed;
  vi.useRealTimers();
  expect(locked.mock.calls.length).toBeGreaterThan(early);
  const missing = vi.fn(() => Promise.reject(new Error("D1_ERROR: no such table: SQLITE_ERROR")));
  await expect(retryWhileBusy(missing)).rejects.toThrow("no such table");
  expect(missing).toHaveBeenCalledTimes(1);
});
