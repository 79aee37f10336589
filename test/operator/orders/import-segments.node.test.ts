import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import { importLines, type MemoryStore, openMemoryStore } from "./memory-store.ts";

/** The number of orders in the store. They fill two segments and almost half of a third. */
const STORED = 20_000;

let content: Uint8Array;
beforeAll(async () => {
  store = openMemoryStore();
  await importLines(store, orders(0, STORED));
  content = store.sqlite.serialize();
  await store.close();
});

let store: MemoryStore;
beforeEach(() => {
  store = openMemoryStore(content);
  store.sqlite.exec(`
    CREATE TABLE written (id INTEGER);
    CREATE TRIGGER inserted AFTER INSERT ON orders BEGIN INSERT INTO written VALUES (NEW.id); END;
    CREATE TRIGGER updated AFTER UPDATE ON orders BEGIN INSERT INTO written VALUES (NEW.id); END`);
});
afterEach(() => store.close());

function orders(start: number, count: number, fields: object = {}): object[] {
  return Array.from({ length: count }, (_, index) => ({ id: start + index, ...fields }));
}

/** Returns the order ids of all inserts and updates since the test began. */
function writtenIds(): unknown[] {
  return store.sqlite
    .prepare("SELECT id FROM written ORDER BY id")
    .all()
    .map(({ id }) => id);
}

function listVersion(): unknown {
  return store.sqlite.prepare("SELECT version FROM order_list").get()?.["version"];
}

function segments(): { firstId: string; version: string; count: number }[] {
  return store.sqlite
    .prepare(
      "SELECT first_id || '' AS firstId, version, count FROM order_segments ORDER BY first_id",
    )
    .all() as ReturnType<typeof segments>;
}

/** Returns the first order ids of the segments whose version is not in `before`. */
function changedSince(before: ReturnType<typeof segments>): string[] {
  const former = new Set(before.map(({ version }) => version));
  return segments().flatMap(({ firstId, version }) => (former.has(version) ? [] : [firstId]));
}

describe("an import that changes much of the store", () => {
  it("divides the orders into new segments, and gives the list a new version", async () => {
    const [before, list] = [segments(), listVersion()];
    expect(before.map(({ firstId, count }) => [firstId, count])).toEqual([
      ["-9223372036854775808", 8_192],
      ["8192", 8_192],
      ["16384", 3_616],
    ]);
    await importLines(store, orders(-10_000, 10_000));
    expect(segments().map(({ firstId, count }) => [firstId, count])).toEqual([
      ["-9223372036854775808", 8_192],
      ["-1808", 8_192],
      ["6384", 8_192],
      ["14576", 5_424],
    ]);
    expect(new Set([...before, ...segments()].map(({ version }) => version)).size).toBe(7);
    expect(listVersion()).not.toBe(list);
  });

  it("enables the triggers of the database again", async () => {
    const [before, list] = [segments(), listVersion()];
    store.sqlite.exec("UPDATE orders SET status = 'cancelled', cancelled_at = 1 WHERE id = 8192");
    expect(changedSince(before)).toEqual(["8192"]);
    expect(segments()[1]?.count).toBe(8_191);
    expect(listVersion()).not.toBe(list);
  });

  it("writes only orders that differ", async () => {
    await importLines(store, [
      ...orders(0, STORED - 1),
      { id: STORED - 1, quantity: 1 },
      { id: STORED },
    ]);
    expect(writtenIds()).toEqual([STORED - 1, STORED]);
  });

  it("leaves segments and triggers as they were if it fails", async () => {
    const before = segments();
    const shipping: StoreDatabase = {
      ...store,
      transaction: async (statements) => {
        store.sqlite.exec(`UPDATE orders SET status = 'shipped' WHERE id = ${STORED - 1}`);
        await store.transaction(statements);
      },
    };
    await expect(importLines(shipping, orders(0, STORED, { quantity: 5 }))).rejects.toThrow(
      "has shipped",
    );
    expect(changedSince(before)).toEqual(["16384"]);
    expect(new Set(writtenIds())).toEqual(new Set([STORED - 1]));
    const afterFailure = segments();
    store.sqlite.exec("DELETE FROM orders WHERE id = 0");
    expect(changedSince(afterFailure)).toEqual(["-9223372036854775808"]);
  });
});

it.each([
  ["all", STORED],
  ["a few", 10],
])("an import of %s orders whose parts were deleted fails and places nothing", async (_, count) => {
  const [before, list] = [segments(), listVersion()];
  const removing: StoreDatabase = {
    ...store,
    transaction: async (statements) => {
      store.sqlite.exec("DELETE FROM order_import_parts");
      await store.transaction(statements);
    },
  };
  await expect(importLines(removing, orders(0, count, { quantity: 5 }))).rejects.toThrow(
    "parts of this import are gone",
  );
  expect([segments(), listVersion(), writtenIds()]).toEqual([before, list, []]);
});

it("an import of a few changes gives a new version only to the changed segments", async () => {
  const [before, list] = [segments(), listVersion()];
  await importLines(store, [{ id: 8_191 }, { id: 8_192, petId: 1 }, { id: 16_383 }]);
  expect(changedSince(before)).toEqual(["8192"]);
  expect(listVersion()).not.toBe(list);
  expect(writtenIds()).toEqual([8_192]);
});

it.each([
  ["all orders", 0, STORED],
  ["a few orders", 8_000, 500],
  ["no orders", 0, 0],
])(
  "an import of %s that changes nothing writes no order and no version",
  async (_, start, count) => {
    const [before, list] = [segments(), listVersion()];
    await importLines(store, orders(start, count));
    expect(segments()).toEqual(before);
    expect(listVersion()).toBe(list);
    expect(writtenIds()).toEqual([]);
  },
);
