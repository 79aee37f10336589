import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import pRetry from "p-retry";
import { expect, it } from "vitest";
import {
  databaseFile,
  makeOwnFolder,
  ownFolder,
} from "../../../src/operator/database/local-store.ts";
import { currentActor } from "../../../src/operator/keys/actor.ts";
import { requireFreePort } from "../../../src/operator/start/program.ts";
import { prepareStore } from "../../../src/operator/start/sample-store.ts";
import { lockStore, readHolder } from "../../../src/operator/start/store-lock.ts";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import type { CreatedKey } from "../../../src/store/keys/key-settings.ts";
import { beforeStatements, StoreFolder } from "../store-folder.ts";
import type { DatabaseName } from "../../../src/schema/databases.ts";

/** Expects the sample orders, and the keys that were shown, beside those of other secrets. */
function expectSampleStore(folder: string, shown: readonly CreatedKey[], ...others: string[]) {
  const read = (name: DatabaseName, query: string) => {
    using sqlite = new DatabaseSync(databaseFile(folder, name));
    return sqlite.prepare(query).all().flatMap(Object.values);
  };
  expect(read("orders", "SELECT count(*), sum(status = 'shipped') FROM orders")).toEqual([10, 1]);
  expect(read("keys", "SELECT DISTINCT actor FROM key_changes")).toEqual([currentActor()]);
  const secrets = [...shown.map(({ key }) => key), ...others];
  const hashes = secrets.map(hashSecret).toSorted();
  expect(read("keys", "SELECT hash FROM api_keys ORDER BY hash")).toEqual(hashes);
  expect(shown.map(({ record }) => record.plan)).toEqual(["free", "pro", "business", "enterprise"]);
}

it("a first start that is interrupted at any statement is repeated, and shows keys that work", async () => {
  let starts = 0;
  for (let isInterrupted = true; isInterrupted; starts += 1) {
    const store = new StoreFolder();
    let statements = 0;
    const spy = beforeStatements(() => {
      if (statements++ === starts) throw new Error("killed");
    });
    let shown: readonly CreatedKey[] = [];
    const show = (keys: readonly CreatedKey[]) => void (shown = keys);
    const first = prepareStore(store.path, false, show);
    const outcome = await first.catch(({ message }: Error) => message);
    spy.mockRestore();
    isInterrupted = statements > starts;
    if (isInterrupted) {
      expect(outcome).toContain("killed");
      await prepareStore(store.path, false, show);
    }
    expectSampleStore(store.path, shown);
    expect(await prepareStore(store.path, false)).toEqual([]);
  }
  expect(starts).toBeGreaterThan(10);
});

it("a first start that is interrupted while it shows the keys shows others the next time", async () => {
  const store = new StoreFolder();
  const killed = () => {
    throw new Error("killed");
  };
  await expect(prepareStore(store.path, false, killed)).rejects.toThrow("killed");
  const { id, key } = await store.keysJson("create", "--plan", "pro", "--name", "Demo pro");
  const shown = await prepareStore(store.path, false);
  expect(await store.keysJson("show", id)).toMatchObject({ id, state: "active" });
  expectSampleStore(store.path, shown, key);
});

it("a first start stores no keys whose ids it could not keep", async () => {
  const store = new StoreFolder();
  const file = join(ownFolder(store.path), "unfinished");
  using _ = beforeStatements((query) => {
    if (!/delete from .api_keys/i.test(query)) return;
    rmSync(file);
    mkdirSync(file);
  });
  await expect(prepareStore(store.path, false)).rejects.toThrow("EISDIR");
  expect(await store.keysJson("list")).toEqual([]);
});

it("a start with --empty is the first one: a later one adds no keys and no orders", async () => {
  const store = new StoreFolder();
  expect(await prepareStore(store.path, true)).toEqual([]);
  expect(await prepareStore(store.path, false)).toEqual([]);
  expect((await store.orders(["export"])).stdout).toBe("");
});

it("a start waits for the lock and the port of a service that is ending", async () => {
  const store = new StoreFolder();
  const file = join(makeOwnFolder(store.path), "service.lock");
  const holder = `
    const { DatabaseSync } = require("node:sqlite");
    const lock = new DatabaseSync(${JSON.stringify(file)}, { timeout: 60_000 });
    lock.exec("BEGIN EXCLUSIVE");
    const server = require("node:net").createServer().listen(0, "127.0.0.1", () => {
      require("node:worker_threads").parentPort.postMessage(server.address().port);
      setTimeout(() => server.close(), 100);
      setTimeout(() => lock.close(), 200);
    });`;
  const attempt = async () => {
    const [port] = await once(new Worker(holder, { eval: true }), "message");
    await requireFreePort(port);
    lockStore(store.path, 1);
  };
  // On a slow machine the holder may take longer than a start waits.
  await pRetry(attempt, { retries: 5, minTimeout: 0 });
  expect(readHolder(store.path)).toEqual({ pid: process.pid, port: 1 });
});
