import { globSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { sql } from "drizzle-orm";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import * as retrying from "../../../src/operator/database/retry-while-busy.ts";
import { StoreFolder } from "../store-folder.ts";

// `beforeWork` is called before each database operation, `onBusy` each time the database is locked.
const beforeWork = vi.fn<() => unknown>();
const onBusy = vi.fn<() => void>();
const { isBusy, retryWhileBusy } = retrying;
vi.spyOn(retrying, "retryWhileBusy").mockImplementation((work) => {
  const waited = beforeWork();
  return retryWhileBusy(async () => {
    await waited;
    return work().catch((error: unknown) => {
      if (isBusy(error)) onBusy();
      throw error;
    });
  });
});

const store = new StoreFolder();

/** Opens the SQLite files of both databases, as another process would. */
function openFiles(): DatabaseSync[] {
  const files = globSync(`${store.path}/v3/d1/*/????????????????*.sqlite`);
  expect(files).toHaveLength(2);
  return files.map((file) => new DatabaseSync(file, { timeout: 60_000 }));
}

beforeAll(() => store.make());
beforeEach(() => {
  beforeWork.mockReset();
  onBusy.mockReset();
});
afterAll(() => store.remove());

const createKey = (name: string) => store.keysJson("create", "--plan", "free", "--name", name);

describe("commands on a store to which another process writes", () => {
  it("wait until the database is unlocked", async () => {
    const databases = openFiles();
    for (const sqlite of databases) sqlite.exec("BEGIN IMMEDIATE");
    const isRefusedAgain = new Promise<void>((resolve) =>
      onBusy.mockImplementation(() => {
        if (onBusy.mock.calls.length === 3) resolve();
      }),
    );
    const isCreated = vi.fn<() => void>();
    const creating = createKey("Waited").finally(isCreated);
    await isRefusedAgain;
    expect(isCreated).not.toHaveBeenCalled();
    for (const sqlite of databases) sqlite.close();
    const { id } = await creating;
    expect(await store.keysJson("list")).toContainEqual(expect.objectContaining({ id }));
  });

  it("all succeed although the other process writes before each of their statements", async () => {
    const databases = openFiles();
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
    const [imported] = await Promise.all([
      store.ordersJson(["import", "-"], orders),
      ...names.map(createKey),
    ]);
    commit();
    for (const sqlite of databases) sqlite.close();
    expect(onBusy.mock.calls.length).toBeGreaterThanOrEqual(names.length);
    expect(imported).toEqual({ imported: 100 });
    beforeWork.mockReset();
    const list = await store.keysJson("list");
    expect(list.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining(names));
  });
});

it("a local database refuses what D1 refuses", async () => {
  const database = await openLocalDatabase(store.path, "keys");
  const pattern = "x".repeat(51);
  await expect(database.orm.all(sql`SELECT 'x' LIKE ${pattern}`)).rejects.toThrow();
  expect(await database.orm.all(sql`SELECT 'x' LIKE ${pattern.slice(1)}`)).toHaveLength(1);
  await database.close();
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

describe("retryWhileBusy", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it("gives up after half a minute", async () => {
    vi.useFakeTimers();
    let attempts = 0;
    const failed = expect(
      retryWhileBusy(async () => {
        attempts += 1;
        throw new Error("D1_ERROR: database is locked: SQLITE_BUSY");
      }),
    ).rejects.toThrow("locked by another process for 30 seconds");
    await vi.advanceTimersByTimeAsync(31_000);
    await failed;
    expect(attempts).toBeGreaterThan(50);
  });

  it("does not retry after any other failure", async () => {
    const work = vi.fn(() => Promise.reject(new Error("D1_ERROR: no such table: SQLITE_ERROR")));
    await expect(retryWhileBusy(work)).rejects.toThrow("no such table");
    expect(work).toHaveBeenCalledTimes(1);
  });
});
