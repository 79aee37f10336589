import fc from "fast-check";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { INT64_MAX } from "../../../src/rules/int64.ts";
import * as store from "./isolates/order-database.ts";

const database = store.openOrderDatabase();
/** The contents that each version of a segment has had. */
const named = new Map<string, string>();
beforeEach(() => database.exec("BEGIN"));
afterEach(() => database.exec("ROLLBACK"));
afterAll(() => database.close());

const SEGMENTS = `
  SELECT version, bytes, (
    SELECT json_group_array(concat_ws('|', id, ifnull(quantity, 'none'), status) ORDER BY id)
    FROM orders WHERE id BETWEEN first_id AND last_id) AS content, (
    SELECT total(octet_length(${store.ORDER_JSON}) + 1)
    FROM orders WHERE id BETWEEN first_id AND last_id) AS json_bytes
  FROM (SELECT *, ifnull(lead(first_id) OVER (ORDER BY first_id) - 1, ${INT64_MAX}) AS last_id
    FROM order_segments) ORDER BY first_id`;

/** Returns the list's version, and its orders by segment. Expects that they are consistent. */
function readList() {
  const rows = store.prepare(database, SEGMENTS).all();
  const segments = rows.map((row) => {
    const [version, content] = [String(row["version"]), String(row["content"])];
    if ((named.get(version) ?? content) !== content) expect.fail("a version names two contents");
    named.set(version, content);
    const bytes = { bytes: Number(row["bytes"]), jsonBytes: Number(row["json_bytes"]) };
    return { ...bytes, orders: JSON.parse(content) as string[] };
  });
  const orders = segments.flatMap((segment) => segment.orders);
  return { ...store.versionOf(database), segments, orders };
}

const step = fc.record({
  change: fc.constantFrom(...store.ORDER_CHANGES),
  ids: fc.uniqueArray(store.anyId, { minLength: 1, maxLength: 9 }),
  isBulk: fc.constantFrom(true, false, false, false, false),
});

test("a segment's version always identifies the same orders, and the list's version changes with them", () => {
  const property = fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
    store.execute(database, "SAVEPOINT empty");
    let before = readList();
    for (const { change, ids, isBulk } of steps) {
      const beganMs = Date.now();
      const run = () => ids.forEach((one) => store.changeOrder(database, change, one));
      if (isBulk) store.bulkChange(database, run);
      else run();
      const after = readList();
      const isNew = after.version !== before.version;
      if (after.orders.join() !== before.orders.join()) expect(isNew).toBe(true);
      // Housekeeping reads the time of a change from its sequence number.
      const least = Math.max(beganMs * 1_000, before.sequence + 1);
      if (isNew) expect(after.sequence).toBeGreaterThanOrEqual(least);
      const { total } = store.prepare(database, "SELECT count(*) AS total FROM orders").get()!;
      expect(after.orders).toHaveLength(Number(total));
      for (const { bytes, jsonBytes } of after.segments) {
        expect(bytes).toBeGreaterThanOrEqual(jsonBytes);
        expect(bytes).toBeLessThanOrEqual(store.MAX_SEGMENT_BYTES);
      }
      before = after;
    }
    store.execute(database, "ROLLBACK TO empty");
  });
  fc.assert(property, { numRuns: 300 });
});

test.each(["id", "-id"])("small neighbouring segments are joined, if deleted by %s", (order) => {
  store.placeMany(database, 300);
  const doomed = database.prepare(`SELECT id FROM orders WHERE id % 4 ORDER BY ${order}`).all();
  for (const [index, { id: one }] of doomed.entries()) {
    store.execute(database, "DELETE FROM orders WHERE id = ?", one!);
    if (index % 10 === 0) readList();
  }
  const { segments, orders } = readList();
  expect(orders).toHaveLength(75);
  // Two neighbours have more than two orders, half of the most that a segment may have.
  expect(segments.length).toBeLessThanOrEqual(51);
});
