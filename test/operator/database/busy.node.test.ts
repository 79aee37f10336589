import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import type * as RetryWhileBusy from "../../../src/operator/database/retry-while-busy.ts";
import { retryWhileBusy } from "../../../src/operator/database/retry-while-busy.ts";
import { apiKeys } from "../../../src/worker/db/keys-schema.ts";
import { StoreFolder } from "../store-folder.ts";

/** Is called each time that a command finds the database locked. */
const onBusy = vi.hoisted(() => vi.fn<() => void>());
vi.mock("../../../src/operator/database/retry-while-busy.ts", async (importOriginal) => {
  const original = await importOriginal<typeof RetryWhileBusy>();
  const watched: typeof original.retryWhileBusy = (work) =>
    original.retryWhileBusy(() =>
      work().catch((error: unknown) => {
        if (original.isBusy(error)) onBusy();
        throw error;
      }),
    );
  return { ...original, retryWhileBusy: watched };
});

const store = new StoreFolder();

/** The file of the store's database that has this table. */
function fileWith(table: string): string {
  const files = globSync(`${store.path}/v3/d1/*/????????????????*.sqlite`);
  const found = files.find((file) => {
    using sqlite = new DatabaseSync(file);
    return sqlite.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?").get(table) !== undefined;
  });
  if (found === undefined) throw new Error(`no database has a table ${table}`);
  return found;
}

beforeAll(() => store.make());
beforeEach(() => void onBusy.mockReset());
afterAll(() => store.remove());

const createKey = (name: string) => store.keysJson("create", "--plan", "free", "--name", name);

describe("commands on a store that another process writes to", () => {
  it("wait for the lock", async () => {
    const sqlite = new DatabaseSync(fileWith("api_keys"));
    sqlite.exec("BEGIN IMMEDIATE");
    const isRefusedAgain = new Promise<void>((resolve) =>
      onBusy.mockImplementation(() => {
        if (onBusy.mock.calls.length === 3) resolve();
      }),
    );
    const isCreated = vi.fn<() => void>();
    const creating = createKey("Waited").finally(isCreated);
    await isRefusedAgain;
    expect(isCreated).not.toHaveBeenCalled();
    sqlite.exec("COMMIT");
    sqlite.close();
    const { id } = await creating;
    expect(await store.keysJson("list")).toContainEqual(expect.objectContaining({ id }));
  });

  it("all succeed while it never rests", async () => {
    const writer = spawn(process.execPath, [
      "test/operator/database/busy-writer.ts",
      fileWith("orders"),
    ]);
    await once(writer.stdout, "data");
    const names = ["one", "two", "three"];
    const orders = Array.from({ length: 20_000 }, (_, id) => `{"id":${id}}\n`).join("");
    const [imported] = await Promise.all([
      store.ordersJson(["import", "-"], orders),
      ...names.map(createKey),
    ]);
    const isStillWriting = writer.exitCode === null;
    writer.kill("SIGKILL");
    expect(isStillWriting).toBe(true);
    expect(onBusy).toHaveBeenCalled();
    expect(imported).toEqual({ imported: 20_000 });
    const list = await store.keysJson("list");
    expect(list.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining(names));
  });
});

describe("commands on a new store", () => {
  it("migrate it once when two come at the same time", { timeout: 180_000 }, async () => {
    const fresh = new StoreFolder();
    const databases = await Promise.all([1, 2].map(() => openLocalDatabase(fresh.path, "keys")));
    for (const { orm } of databases) expect(await orm.select().from(apiKeys)).toEqual([]);
    await Promise.all(databases.map((database) => database.close()));
    fresh.remove();
  });
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

  it("repeats nothing else", async () => {
    const work = vi.fn(() => Promise.reject(new Error("D1_ERROR: no such table: SQLITE_ERROR")));
    await expect(retryWhileBusy(work)).rejects.toThrow("no such table");
    expect(work).toHaveBeenCalledTimes(1);
  });
});
