import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import pRetry from "p-retry";
import { expect, it, vi } from "vitest";
import { databaseFile, makeOwnFolder } from "../../../src/operator/database/local-store.ts";
import { currentActor } from "../../../src/operator/keys/actor.ts";
import { requireFreePort } from "../../../src/operator/start/program.ts";
import { prepareStore } from "../../../src/operator/start/sample-store.ts";
import { lockStore, readHolder } from "../../../src/operator/start/store-lock.ts";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import { beforeStatements, StoreFolder } from "../store-folder.ts";
import type { DatabaseName } from "../../../src/schema/databases.ts";

it("a first start that is interrupted anywhere is repeated, shows keys that work, and keeps other keys", async () => {
  let starts = 0;
  for (let isInterrupted = true; isInterrupted; starts += 1) {
    const store = new StoreFolder();
    let steps = 0;
    const step = () => {
      if (steps++ === starts) throw new Error("killed");
    };
    const spy = beforeStatements(step);
    const show = vi.fn(step);
    let created = prepareStore(store.path, false, show);
    const outcome = await created.catch(({ message }: Error) => message);
    spy.mockRestore();
    isInterrupted = steps > starts;
    const others: string[] = [];
    if (isInterrupted) {
      expect(outcome).toContain("killed");
      if (show.mock.calls.length > 0) {
        const { key } = await store.keysJson("create", "--plan", "pro", "--name", "Demo pro");
        others.push(key);
      }
      created = prepareStore(store.path, false);
    }
    const shown = await created;
    expect(await prepareStore(store.path, false)).toEqual([]);
    const read = (name: DatabaseName, query: string) => {
      using sqlite = new DatabaseSync(databaseFile(store.path, name));
      return sqlite.prepare(query).all().flatMap(Object.values);
    };
    const orders = read("orders", "SELECT count(*), sum(status = 'shipped') FROM orders");
    expect(orders).toEqual([10, 1]);
    expect(read("keys", "SELECT DISTINCT actor FROM key_changes")).toEqual([currentActor()]);
    const hashes = [...shown.map(({ key }) => key), ...others].map(hashSecret);
    expect(read("keys", "SELECT hash FROM api_keys ORDER BY hash")).toEqual(hashes.toSorted());
    const plans = shown.map(({ record }) => record.plan);
    expect(plans).toEqual(["free", "pro", "business", "enterprise"]);
  }
  expect(starts).toBeGreaterThan(10);
});

it("a first start stores no keys whose ids it could not keep", async () => {
  const store = new StoreFolder();
  const file = join(makeOwnFolder(store.path), "unfinished");
  using _ = beforeStatements((query) => {
    if (!/delete from .api_keys/i.test(query)) return;
    rmSync(file);
    mkdirSync(file);
  });
  await expect(prepareStore(store.path, false)).rejects.toThrow("EISDIR");
  expect(await store.keysJson("list")).toEqual([]);
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
      setTimeout(() => lock.close(), 600);
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
