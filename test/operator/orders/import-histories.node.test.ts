import { Readable } from "node:stream";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { exportPages } from "../../../src/operator/orders/export.ts";
import { compareFile, importOrders } from "../../../src/operator/orders/import.ts";
import { SortedOrders } from "../../../src/operator/orders/sorted-orders.ts";
import { setImportSizes } from "./import-sizes.ts";
import { openMemoryStore } from "./memory-store.ts";

const fields = {
  petId: fc.nat(1),
  quantity: fc.nat(2),
  shipDate: fc.constant("2026-11-20T08:30:00.000Z"),
  complete: fc.boolean(),
};
const status = fc.constantFrom("pending", "shipped");
const id = fc.integer({ min: -60, max: 60 });
const line = fc.record({ id, status, ...fields }, { requiredKeys: ["id", "status"] });
type Line = typeof line extends fc.Arbitrary<infer T> ? T : never;

/** Up to 30 random lines. Several lines may have the same id. */
const few = fc.array(line, { maxLength: 30 }).map((lines) => () => lines);

/** Up to 200 orders, often with descending ids, usually enough for many parts and segments. */
const many = fc
  .tuple(fc.integer({ min: -300, max: 300 }), fc.nat(200), fc.record({ status, ...fields }))
  .map(([first, count, order]) => () => {
    const by = order.petId === 0 ? 1 : -1;
    return Array.from({ length: count }, (_, index) => ({ id: first + by * index, ...order }));
  });

/** All stored orders or the first ones, of which the first, the last, or none is changed. */
const again = fc
  .record({
    share: fc.integer({ min: 1, max: 12 }),
    at: fc.constantFrom(0, -1, NaN),
    status,
    field: fc.constantFrom("petId", "quantity"),
  })
  .map(({ share, at, field, ...changed }) => (stored: readonly Line[]) => {
    const lines = stored.slice(0, Math.ceil(stored.length / share));
    const order = lines.at(at);
    if (order === undefined || Number.isNaN(at)) return lines;
    return lines.with(at, { ...order, ...changed, [field]: (order[field] ?? 0) + 1 });
  });

/** Selects the parts of the tested imports. The part -1 belongs to another import. */
const OWN_PARTS = "FROM order_import_parts WHERE part >= 0";

/** Statements that someone else runs before and after an import's transaction. `ID` is a changed order. */
const FAULTS = {
  none: ["", ""],
  "part gone": [`DELETE ${OWN_PARTS} AND part = (SELECT max(part) FROM order_import_parts)`, ""],
  ships: ["UPDATE orders SET status = 'shipped' WHERE id = ID", ""],
  "same import": [
    `DELETE FROM again; INSERT INTO again SELECT * ${OWN_PARTS}`,
    "INSERT INTO order_import_parts SELECT * FROM again",
  ],
} as const;

const step = fc.record({
  /** Returns the lines of an imported file. */
  file: fc.oneof<fc.Arbitrary<(stored: readonly Line[]) => readonly Line[]>[]>(few, many, again),
  /** A change by someone else while the import places its orders. */
  fault: fc.constantFrom<keyof typeof FAULTS>("none", "none", "part gone", "ships", "same import"),
  /** The position of an order that is cancelled after the import. */
  cancelled: fc.oneof(fc.nat(300), fc.constant(-1)),
});
const steps = fc.array(step, { maxLength: 8 });

const GONE =
  "parts of this import are gone, or the store is no longer empty. Of the file, all orders are in the store or none: run the same command again";
const sizes = fc.record({
  partBytes: fc.integer({ min: 60, max: 1_000 }),
  segmentBytes: fc.integer({ min: 100, max: 4_000 }),
  blockOrders: fc.integer({ min: 2, max: 9 }),
});

const { sqlite, open: openStore } = openMemoryStore();
sqlite.exec("CREATE TABLE again AS SELECT * FROM order_import_parts");
afterAll(() => sqlite.close());

const rowsOf = (query: string): any[] => sqlite.prepare(query).all();

it("after any imports, the orders, their segments and the list's version follow a model", async () => {
  const property = fc.asyncProperty(sizes, steps, async (small, made) => {
    setImportSizes(small);
    if (sqlite.isTransaction) sqlite.exec("ROLLBACK");
    // The tested imports must not delete this part, because it belongs to another import.
    sqlite.exec("BEGIN; INSERT INTO order_import_parts VALUES ('other', -1, 0, '[]')");
    const model = new Map<number, Line>();
    const named = new Map<unknown, unknown>();
    for (const { file, fault, cancelled } of made) {
      const lines = file(ascending(model));
      const { counts, changed, refusal } = expectedImport(model, lines);
      const before = state();
      using orders = new SortedOrders();
      const text = lines.map((each) => JSON.stringify(each)).join("\n");
      await orders.read(Readable.from([Buffer.from(text)]));
      const compared = await compareFile(openStore(), orders).catch(String);
      expect(compared).toEqual(refusal === "" ? counts : expect.stringContaining(refusal));
      expect(state()).toEqual(before);

      const ships = changed.find((each) => model.get(each.id)?.status === "pending");
      const [first, last] = FAULTS[fault];
      const faulty = openStore(
        () => sqlite.exec(first.replace("ID", String(ships?.id ?? null))),
        () => sqlite.exec(last),
      );
      const imported = await importOrders(faulty, orders).catch(String);
      // Failed imports leave parts, which the same import uses and housekeeping deletes.
      if (fault === "same import" || typeof imported === "string") {
        sqlite.exec(`DELETE ${OWN_PARTS}`);
      }
      if (refusal !== "" || (fault === "part gone" && changed.length > 0)) {
        expect(imported).toContain(refusal || GONE);
        expect(state()).toEqual(before);
      } else if (fault === "ships" && ships?.status === "pending") {
        expect(imported).toContain(`order ${ships.id} has shipped`);
        model.set(ships.id, { ...model.get(ships.id)!, status: "shipped" });
      } else {
        expect(imported).toEqual(counts);
        for (const order of changed) model.set(order.id, order);
        const { version, segments, changes } = state();
        expect(version === before.version).toBe(changed.length === 0);
        if (changed.length === 0) expect(state()).toEqual(before);
        else if (fault !== "ships") {
          // A bulk change is one, keeps no former states, and rebuilds all segments.
          const isBulk = before.orders.length <= 8 * new Set(lines.map((each) => each.id)).size;
          expect(changes - before.changes).toBe(isBulk ? 1 : changed.length);
          const largest = Math.max(...segments.map((segment: any) => segment.bytes));
          // An order adds at most 100 bytes.
          const most = small.segmentBytes + small.blockOrders * 100;
          expect(!isBulk || largest < most).toBe(true);
        }
      }
      let exported = "";
      for await (const page of exportPages(openStore())) exported += page.lines;
      expect(exported).toBe(ascending(model).map(toExport).join(""));
      expect(checkSegments(named)).toBe(model.size);

      const { version } = state();
      // A list that begins now is read as of the newest change.
      const newest = rowsOf("SELECT version FROM order_changes ORDER BY sequence DESC LIMIT 1");
      expect(newest).toEqual([{ version }]);
      const order = ascending(model).at(cancelled);
      if (order?.status !== "pending") continue;
      sqlite.exec(`DELETE FROM orders WHERE id = ${order.id}`);
      model.delete(order.id);
      expect(state().version).not.toBe(version);
      expect(checkSegments(named)).toBe(model.size);
    }
  });
  await fc.assert(property, { numRuns: 35 });
});

const ascending = (model: ReadonlyMap<number, Line>) =>
  [...model.values()].toSorted((one, other) => one.id - other.id);

/** Returns the expected result of an import. If an id occurs in several lines, the last line wins. */
function expectedImport(model: ReadonlyMap<number, Line>, lines: readonly Line[]) {
  const counts = { new: 0, replaced: 0, shipped: 0, unchanged: 0 };
  const changed: Line[] = [];
  const refused: string[] = [];
  for (const [index, order] of lines.entries()) {
    if (lines.findLastIndex((other) => other.id === order.id) !== index) continue;
    const stored = model.get(order.id);
    const isSame = stored !== undefined && toExport(stored) === toExport(order);
    const ships = stored?.status === "pending" && order.status === "shipped";
    const kept = isSame ? "unchanged" : ships ? "shipped" : "replaced";
    counts[stored === undefined ? "new" : kept] += 1;
    if (!isSame) changed.push(order);
    if (stored?.status !== "shipped" || order.status !== "pending") continue;
    refused.push(`line ${index + 1}: order ${order.id} has shipped, which cannot be turned back`);
  }
  return { counts, changed, refusal: refused.slice(0, 10).join("\n  ") };
}

/** Returns the contents of the store, which an import without changes must not alter. */
function state() {
  return {
    ...rowsOf("SELECT version, (SELECT count(*) FROM order_changes) AS changes FROM order_list")[0],
    segments: rowsOf("SELECT CAST(first_id AS TEXT), version, bytes FROM order_segments"),
    orders: rowsOf("SELECT * FROM orders ORDER BY id"),
    left: rowsOf(
      "SELECT import_id FROM order_import_parts UNION ALL SELECT id FROM order_bulk_change",
    ),
  };
}

const toExport = (one: Line) =>
  `${JSON.stringify(one, ["id", ...Object.keys(fields), "status"])}\n`;

/** Checks each segment's size, that only the first is empty, and that one version never names different orders. Counts orders. */
function checkSegments(named: Map<unknown, unknown>): number {
  const rows = rowsOf(
    `SELECT version, segment.bytes AS bytes, count(orders.id) AS found,
       sum(64 + octet_length(concat(id, pet_id, quantity, ship_date, complete)))
         FILTER (WHERE id IS NOT NULL) AS size,
       ifnull(group_concat(concat_ws(' ', id, pet_id, quantity, ship_date, complete)), '') AS orders
     FROM (
       SELECT *, lead(first_id, 1, 1000000) OVER (ORDER BY first_id) AS next_id FROM order_segments
     ) AS segment
     LEFT JOIN orders ON orders.id >= first_id AND orders.id < next_id
     GROUP BY first_id ORDER BY first_id`,
  );
  for (const { version, bytes, size, orders } of rows) {
    expect(bytes).toBe(size ?? 0);
    expect(named.get(version) ?? orders).toBe(orders);
    named.set(version, orders);
  }
  const [, ...later] = rows;
  expect(later.filter(({ found }) => found === 0)).toEqual([]);
  return rows.reduce((sum, { found }) => sum + found, 0);
}
