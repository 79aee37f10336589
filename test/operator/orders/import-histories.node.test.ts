import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import { exportPages } from "../../../src/operator/orders/export.ts";
import { compareFile, IMPORT_SIZES, importOrders } from "../../../src/operator/orders/placement.ts";
import { SortedOrders } from "../../../src/operator/orders/sorted-orders.ts";
import { openMemoryStore } from "./memory-store.ts";

interface Line {
  readonly id: number;
  readonly petId?: number;
  readonly quantity?: number;
  readonly shipDate?: string;
  readonly complete?: boolean;
  readonly status: "pending" | "shipped";
}

/** The orders that a store must have, by id. */
type Model = Map<number, Line>;

/** Returns the lines of an imported file. `stored` has the stored orders in ascending id. */
type File = (stored: readonly Line[]) => readonly Line[];

const fields = {
  petId: fc.nat(1),
  quantity: fc.nat(2),
  shipDate: fc.constant("2026-11-20T08:30:00.000Z"),
  complete: fc.boolean(),
};
const status = fc.constantFrom<Line["status"]>("pending", "shipped");

/** Up to 30 random lines. Several lines may have the same id. */
const few: fc.Arbitrary<File> = fc
  .array(
    fc.record(
      { id: fc.integer({ min: -60, max: 60 }), status, ...fields },
      { requiredKeys: ["id", "status"] },
    ),
    { maxLength: 30 },
  )
  .map((lines) => () => lines);

/** Up to 200 orders with consecutive ids, usually enough for many parts and segments. */
const many: fc.Arbitrary<File> = fc
  .record({
    first: fc.integer({ min: -300, max: 300 }),
    count: fc.nat(200),
    order: fc.record(fields),
  })
  .map(({ first, count, order }) => () => {
    const ids = Array.from({ length: count }, (_, index) => first + index);
    return ids.map((id) => ({ id, ...order, status: "pending" }));
  });

/** Repeats all stored orders or only the first ones. Changes the first line, the last, or none. */
const again: fc.Arbitrary<File> = fc
  .record({ share: fc.integer({ min: 1, max: 12 }), at: fc.constantFrom(0, -1, NaN), status })
  .map(({ share, at, ...changed }) => (stored) => {
    const lines = stored.slice(0, Math.ceil(stored.length / share));
    const index = at < 0 ? lines.length - 1 : at;
    return lines.map((line, place) => {
      return place === index ? { ...line, ...changed, quantity: (line.quantity ?? 0) + 1 } : line;
    });
  });

/** All stored orders as pending, in descending id. The import fails if an order has shipped. */
const pendingAgain: fc.Arbitrary<File> = fc.constant((stored) =>
  stored.toReversed().map((line) => ({ ...line, status: "pending" })),
);

const step = fc.record({
  file: fc.oneof(few, many, again, pendingAgain),
  kind: fc.constantFrom<"line" | "element">("line", "element"),
  /** A change by someone else while the import places its orders. */
  fault: fc.constantFrom(
    null,
    null,
    null,
    "a part is deleted",
    "an order ships",
    "the same import",
  ),
  /** The position of an order that is cancelled after the import. */
  cancelled: fc.nat(300),
});

const sizes = fc.record({
  partCharacters: fc.integer({ min: 60, max: 1_000 }),
  partsPerStatement: fc.integer({ min: 1, max: 3 }),
  segmentOrders: fc.integer({ min: 2, max: 50 }),
});

/** Selects the parts of the tested imports. The part -1 belongs to another import. */
const PARTS = "SELECT * FROM order_import_parts WHERE part >= 0";
const DELETE_PARTS = "DELETE FROM order_import_parts WHERE part >= 0";

const REAL_SIZES = { ...IMPORT_SIZES };
const store = openMemoryStore();
store.sqlite.exec(`
  CREATE TABLE again AS SELECT * FROM order_import_parts;
  CREATE TABLE written (id INTEGER);
  CREATE TRIGGER inserted AFTER INSERT ON orders BEGIN INSERT INTO written VALUES (NEW.id); END;
  CREATE TRIGGER updated AFTER UPDATE ON orders BEGIN INSERT INTO written VALUES (NEW.id); END`);
afterAll(async () => {
  Object.assign(IMPORT_SIZES, REAL_SIZES);
  await store.close();
});

it("after any imports, the orders, their segments and the list's version follow a model", async () => {
  await fc.assert(
    fc.asyncProperty(sizes, fc.array(step, { maxLength: 8 }), async (small, steps) => {
      Object.assign(IMPORT_SIZES, small);
      if (store.sqlite.isTransaction) store.sqlite.exec("ROLLBACK");
      // The tested imports must not delete this part, because it belongs to another import.
      store.sqlite.exec("BEGIN; INSERT INTO order_import_parts VALUES ('other', -1, 0, '[]')");
      const model: Model = new Map();
      const named = new Map<string, string>();
      for (const { file, kind, fault, cancelled } of steps) {
        const lines = file(ascending(model));
        const expected = expectedImport(model, lines, kind);
        const before = state();
        using orders = new SortedOrders();
        await orders.read(bytesOf(lines, kind));
        const compared = await compareFile(store, orders).catch(String);
        expect(compared).toEqual(expected.refusal ?? expected.counts);
        expect(state()).toEqual(before);

        store.sqlite.exec("DELETE FROM written");
        const ships = expected.changed.find(({ id }) => model.get(id)?.status === "pending");
        const faulty = withFault(() => {
          if (fault === "the same import") {
            store.sqlite.exec(`DELETE FROM again; INSERT INTO again ${PARTS}`);
            return () => store.sqlite.exec("INSERT INTO order_import_parts SELECT * FROM again");
          }
          if (fault === "a part is deleted") {
            store.sqlite.exec(
              "DELETE FROM order_import_parts WHERE part >= 0 AND part = (SELECT max(part) FROM order_import_parts)",
            );
          }
          if (fault !== "an order ships" || ships === undefined) return undefined;
          store.sqlite.exec(`UPDATE orders SET status = 'shipped' WHERE id = ${ships.id}`);
          model.set(ships.id, { ...model.get(ships.id)!, status: "shipped" });
          return undefined;
        });
        const imported = await importOrders(faulty, orders).catch(String);
        if (fault === "the same import") store.sqlite.exec(DELETE_PARTS);
        const isPartGone = fault === "a part is deleted" && expected.changed.length > 0;
        const hasShipped = fault === "an order ships" && ships?.status === "pending";
        if (expected.refusal !== null || isPartGone) {
          expect(imported).toContain(expected.refusal ?? "parts of this import are gone");
          // The failed import leaves its remaining parts to housekeeping, so the test deletes them.
          if (expected.refusal === null) {
            store.sqlite.exec(DELETE_PARTS);
          }
          expect(state()).toEqual(before);
        } else if (hasShipped) {
          expect(imported).toContain(`order ${ships.id} has shipped`);
        } else {
          expect(imported).toEqual(expected.counts);
          for (const order of expected.changed) model.set(order.id, order);
          const isChanged = expected.changed.length > 0;
          expect(state().version === before.version).toBe(!isChanged);
          if (!isChanged) expect(state()).toEqual(before);
          // A small import gives new versions only to the segments that it changes.
          if (orders.count() < before.orders.length / 8) {
            const kept = new Set(state().segments.map(({ version }) => version));
            const lost = before.segments.filter(({ version }) => !kept.has(version));
            expect(lost.length).toBeLessThanOrEqual(expected.changed.length);
          }
          const written = store.sqlite.prepare("SELECT id FROM written").all();
          const ids = new Set(written.map(({ id }) => id));
          expect(expected.changed.filter(({ id }) => !ids.has(id))).toEqual([]);
          if (fault === null) expect(written).toHaveLength(expected.changed.length);
        }
        let exported = "";
        for await (const page of exportPages(store)) exported += page.lines;
        expect(exported).toBe(ascending(model).map(toExport).join(""));
        expect(checkSegments(named)).toBe(model.size);
        cancel(model, cancelled);
        expect(checkSegments(named)).toBe(model.size);
      }
    }),
    // Interrupts shrinking before the test times out, so that a counterexample is shown.
    { numRuns: 50, interruptAfterTimeLimit: 40_000 },
  );
});

function ascending(model: Model): Line[] {
  return [...model.values()].toSorted((one, other) => one.id - other.id);
}

/** Returns the expected result of an import. If an id occurs in several lines, the last line wins. */
function expectedImport(model: Model, lines: readonly Line[], kind: "line" | "element") {
  const counts = { new: 0, replaced: 0, shipped: 0, unchanged: 0 };
  const changed: Line[] = [];
  let refusal: string | null = null;
  for (const [index, line] of lines.entries()) {
    if (lines.findLastIndex(({ id }) => id === line.id) !== index) continue;
    const stored = model.get(line.id);
    const isSame = stored !== undefined && toExport(stored) === toExport(line);
    const ships = stored?.status === "pending" && line.status === "shipped";
    counts[stored === undefined ? "new" : isSame ? "unchanged" : ships ? "shipped" : "replaced"] +=
      1;
    if (!isSame) changed.push(line);
    if (stored?.status === "shipped" && line.status === "pending") {
      refusal ??= `ElementError: ${kind} ${index + 1}: order ${line.id} has shipped, which cannot be turned back`;
    }
  }
  return { counts, changed, refusal };
}

function withFault(happens: () => (() => void) | undefined): StoreDatabase {
  return {
    ...store,
    transaction: async (statements) => {
      const after = happens();
      await store.transaction(statements);
      after?.();
    },
  };
}

async function* bytesOf(lines: readonly Line[], kind: "line" | "element") {
  const text = lines.map((line) => JSON.stringify(line));
  yield new TextEncoder().encode(kind === "line" ? text.join("\n") : `[${text.join()}]`);
}

/** Returns the contents of the store, which an import without changes must not alter. */
function state() {
  const all = (sql: string) => store.sqlite.prepare(sql).all();
  return {
    version: all("SELECT version FROM order_list")[0]?.["version"],
    segments: all("SELECT * FROM order_segments ORDER BY first_id"),
    orders: all("SELECT * FROM orders ORDER BY id"),
    left: all(
      "SELECT import_id FROM order_import_parts UNION ALL SELECT id FROM order_bulk_change",
    ),
  };
}

function toExport({ id, petId, quantity, shipDate, complete, status: shown }: Line): string {
  return `${JSON.stringify({ id, petId, quantity, shipDate, complete, status: shown })}\n`;
}

/** Cancels an order outside an import. The list must then have a new version. */
function cancel(model: Model, position: number): void {
  const order = ascending(model)[position];
  if (order?.status !== "pending") return;
  const { version } = state();
  store.sqlite.exec(`DELETE FROM orders WHERE id = ${order.id}`);
  model.delete(order.id);
  expect(state().version).not.toBe(version);
}

/**
 * Checks the count of each segment, and that one version never has different orders. Records the
 * orders of each version in `named`. Returns the number of orders in all segments.
 */
function checkSegments(named: Map<string, string>): number {
  const rows = store.sqlite
    .prepare(
      `SELECT version, segment.count AS count, count(orders.id) AS found,
         ifnull(group_concat(concat_ws(' ', id, pet_id, quantity, ship_date, complete)), '') AS orders
       FROM (
         SELECT *, lead(first_id, 1, 1000000) OVER (ORDER BY first_id) AS next_id FROM order_segments
       ) AS segment
       LEFT JOIN orders ON orders.id >= first_id AND orders.id < next_id
       GROUP BY first_id`,
    )
    .all() as unknown as { version: string; count: number; found: number; orders: string }[];
  for (const { version, count, found, orders } of rows) {
    expect(count).toBe(found);
    expect(named.get(version) ?? orders).toBe(orders);
    named.set(version, orders);
  }
  return rows.reduce((sum, { found }) => sum + found, 0);
}
