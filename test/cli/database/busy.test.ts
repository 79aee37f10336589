import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { retryWhileBusy } from "../../../src/cli/database/retry-while-busy.ts";
import { StoreFolder } from "../store-folder.ts";

const store = new StoreFolder();
let sqliteFile: string;

beforeAll(async () => {
  await store.keysJson("list");
  const [found = ""] = globSync(`${store.path}/v3/d1/*/????????????????*.sqlite`);
  sqliteFile = found;
});
afterAll(() => store.remove());

const createKey = (name: string) => store.keysJson("create", "--plan", "free", "--name", name);

describe("commands on a store that another process writes to", () => {
  it("wait for the lock", async () => {
    const sqlite = new DatabaseSync(sqliteFile);
    sqlite.exec("BEGIN IMMEDIATE");
    const released = new Promise<number>((resolve) =>
      setTimeout(() => {
        sqlite.exec("COMMIT");
        resolve(performance.now());
      }, 5_000),
    );
    const created = await createKey("Waited");
    expect(performance.now()).toBeGreaterThan(await released);
    sqlite.close();
    expect(await store.keysJson("list")).toContainEqual(
      expect.objectContaining({ id: created.id }),
    );
  });

  it("all succeed while it never rests", async () => {
    const writer = spawn(process.execPath, ["test/cli/database/busy-writer.ts", sqliteFile]);
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
    expect(imported).toEqual({ imported: 20_000 });
    const list = await store.keysJson("list");
    expect(list.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining(names));
  });
});

describe("commands on a new store", () => {
  it("migrate it once when several come at the same time", async () => {
    const fresh = new StoreFolder();
    const created = await Promise.all(
      ["a", "b", "c"].map((name) => fresh.keysJson("create", "--plan", "free", "--name", name)),
    );
    const list: { id: string }[] = await fresh.keysJson("list");
    expect(list.map(({ id }) => id).toSorted()).toEqual(created.map(({ id }) => id).toSorted());
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
