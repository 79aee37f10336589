import { DatabaseSync } from "node:sqlite";
import { expect, it, vi } from "vitest";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import { currentActor } from "../../../src/operator/keys/actor.ts";
import { prepareStore } from "../../../src/operator/start/sample-store.ts";
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
