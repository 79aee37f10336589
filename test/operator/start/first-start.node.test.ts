import { DatabaseSync, StatementSync } from "node:sqlite";
import { afterEach, expect, it, vi } from "vitest";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import { prepareStore } from "../../../src/operator/start/sample-store.ts";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import type { CreatedKey } from "../../../src/store/keys/key-settings.ts";
import { StoreFolder } from "../store-folder.ts";
import type { DatabaseName } from "../../../src/schema/databases.ts";

afterEach(() => vi.restoreAllMocks());

/** Makes the statement at this position fail, as if the process was killed before it. */
function interruptAt(position: number) {
  let statements = 0;
  const count = () => {
    if (statements++ === position) throw new Error("killed");
  };
  const methods = [
    [DatabaseSync.prototype, "exec"],
    [StatementSync.prototype, "all"],
    [StatementSync.prototype, "run"],
  ] as const;
  for (const [prototype, method] of methods) {
    const real = Reflect.get(prototype, method) as (...values: unknown[]) => unknown;
    const counted = function (this: unknown, ...values: unknown[]) {
      if (values[0] !== "ROLLBACK") count();
      return real.apply(this, values);
    };
    vi.spyOn(prototype as any, method).mockImplementation(counted as never);
  }
  return { hasInterrupted: () => statements > position };
}

function expectSampleStore(
  folder: string,
  shown: readonly CreatedKey[],
  others: readonly string[] = [],
): void {
  const read = (name: DatabaseName, query: string) => {
    using sqlite = new DatabaseSync(databaseFile(folder, name));
    return sqlite.prepare(query).all().flatMap(Object.values);
  };
  expect(read("orders", "SELECT count(*) FROM orders")).toEqual([10]);
  expect(read("keys", "SELECT hash FROM api_keys ORDER BY hash")).toEqual(
    [...shown.map(({ key }) => key), ...others].map(hashSecret).toSorted(),
  );
  expect(shown.map(({ record }) => record.plan)).toEqual(["free", "pro", "business", "enterprise"]);
}

it("a first start that is interrupted at any statement is repeated, and shows keys that work", async () => {
  let isInterrupted = true;
  let starts = 0;
  for (; isInterrupted; starts += 1) {
    const store = new StoreFolder();
    const interruption = interruptAt(starts);
    let shown: readonly CreatedKey[] = [];
    const show = (keys: readonly CreatedKey[]) => void (shown = keys);
    const first = await prepareStore(store.path, false, show).catch(
      (error: Error) => error.message,
    );
    isInterrupted = interruption.hasInterrupted();
    vi.restoreAllMocks();
    if (isInterrupted) {
      expect(first).toContain("killed");
      await prepareStore(store.path, false, show);
    }
    expectSampleStore(store.path, shown);
    expect(await prepareStore(store.path, false)).toEqual([]);
    store.remove();
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
  expectSampleStore(store.path, shown, [key]);
  store.remove();
});

it("a start with --empty is the first one: a later one adds no keys and no orders", async () => {
  const store = new StoreFolder();
  expect(await prepareStore(store.path, true)).toEqual([]);
  expect(await prepareStore(store.path, false)).toEqual([]);
  expect((await store.orders(["export"])).stdout).toBe("");
  store.remove();
});
