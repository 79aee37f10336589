import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import {
  bulkChange,
  MAX_SEGMENT_ORDERS,
  openOrderDatabase,
  prepare,
} from "./isolates/order-database.ts";

const database = openOrderDatabase();
beforeEach(() => database.exec("BEGIN"));
afterEach(() => database.exec("ROLLBACK"));
afterAll(() => database.close());

const STATE = `
  SELECT version, sequence, (SELECT count(*) FROM order_changes) AS changes, (
    SELECT json_group_array(json_array(
      CAST(first_id AS TEXT), CAST(last_id AS TEXT), version, count, (
        SELECT json_group_array(concat_ws('|', id, ifnull(quantity, 'none'), status) ORDER BY id)
        FROM orders WHERE id BETWEEN first_id AND last_id)) ORDER BY first_id)
    FROM (SELECT *, ifnull(lead(first_id) OVER (ORDER BY first_id) - 1, ${INT64_MAX}) AS last_id
      FROM order_segments)
  ) AS segments FROM order_list`;

/** The list, and its segments with the contents of their orders. */
function state() {
  const row = prepare(database, STATE).get()!;
  const rows = JSON.parse(String(row["segments"])) as [string, string, string, number, string[]][];
  return {
    version: String(row["version"]),
    sequence: Number(row["sequence"]),
    changes: Number(row["changes"]),
    segments: rows.map(([first, last, version, count, orders]) => {
      const content = orders.join();
      return {
        first: BigInt(first),
        last: BigInt(last),
        version,
        count,
        content,
        orders: orders.length,
      };
    }),
  };
}

/** Changes of the orders whose ids are the JSON array `?1`. The database refuses some of them. */
const CHANGES = [
  "INSERT INTO orders (id, quantity) SELECT value, ?2 FROM json_each(?1) WHERE 1 ON CONFLICT DO NOTHING",
  "INSERT OR REPLACE INTO orders (id, quantity) SELECT value, ?2 FROM json_each(?1)",
  "UPDATE orders SET quantity = ?2 WHERE id IN (SELECT value FROM json_each(?1))",
  "UPDATE orders SET status = 'shipped' WHERE id = (SELECT value FROM json_each(?1)) OR ?2 = 9",
  "DELETE FROM orders WHERE id IN (SELECT value FROM json_each(?1)) OR ?2 = 9",
];

const id = fc.oneof(
  { weight: 8, arbitrary: fc.bigInt(1n, 24n) },
  fc.constantFrom(INT64_MIN, INT64_MIN + 1n, -1n, 0n, INT64_MAX - 1n, INT64_MAX),
);
const step = fc.record({
  change: fc.constantFrom(...CHANGES),
  ids: fc.uniqueArray(id, { minLength: 1, maxLength: 9 }),
  quantity: fc.constantFrom(null, 1, 2),
  isBulk: fc.constantFrom(true, false, false, false, false),
});

test("a segment's version always identifies the same orders, and changes only if the orders change", () => {
  const named = new Map<string, string>();
  const property = fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
    prepare(database, "SAVEPOINT empty").run();
    let before = state();
    for (const { change, ids, quantity, isBulk } of steps) {
      const beganMs = Date.now();
      const run = () => {
        try {
          prepare(database, change).run(`[${ids.join()}]`, quantity);
        } catch (error) {
          if (!String(error).includes("a shipped order")) throw error;
        }
      };
      if (isBulk) bulkChange(database, run);
      else run();
      const after = state();
      const faults: string[] = [];
      const check = (name: string, holds: boolean) => holds || faults.push(name);
      const joined = ({ segments }: typeof after, field: "content" | "version") =>
        segments.map((one) => one[field]).join();
      const isNew = after.version !== before.version;
      check("new", isNew === (joined(before, "version") !== joined(after, "version")));
      check("same", isNew || joined(before, "content") === joined(after, "content"));
      // Housekeeping reads the time of a change from its sequence number.
      check("time", !isNew || after.sequence >= beganMs * 1_000);
      check("first", after.segments[0]?.first === INT64_MIN);
      for (const { version, content, count, orders } of after.segments) {
        check("version", (named.get(version) ?? content) === content);
        named.set(version, content);
        check("count", count >= orders && count <= MAX_SEGMENT_ORDERS);
      }
      // A bulk change keeps no former states.
      if (isBulk) check("bulk", after.changes === before.changes + 1);
      // A segment keeps its version if the change affected none of its orders.
      for (const one of isBulk ? [] : after.segments) {
        const earlier = before.segments.find(({ first }) => first === one.first);
        if (earlier?.content !== one.content) continue;
        const isTouched = ids.some((n) => n >= one.first && (n <= one.last || n <= earlier.last));
        check("untouched", isTouched || earlier.version === one.version);
      }
      prepare(database, "UPDATE orders SET id = id, quantity = quantity, status = status").run();
      check("update to the same", isDeepStrictEqual(state(), after));
      expect(faults).toStrictEqual([]);
      before = after;
    }
    prepare(database, "ROLLBACK TO empty").run();
  });
  fc.assert(property, { numRuns: 300 });
}, 60_000);

test.each(["id", "-id", "abs(random())"])(
  "A store whose orders come and go stays listable: small neighbouring segments are joined under a new version, deleted by %s",
  (order) => {
    database.exec(`WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 600)
      INSERT INTO orders (id) SELECT id FROM n`);
    const doomed = database.prepare(`SELECT id FROM orders WHERE id % 4 ORDER BY ${order}`).all();
    const named = new Map<string, string>();
    for (const [index, { id: one }] of doomed.entries()) {
      prepare(database, "DELETE FROM orders WHERE id = ?").run(one!);
      if (index % 10 > 0) continue;
      for (const { version, content } of state().segments) {
        expect(named.get(version) ?? content).toBe(content);
        named.set(version, content);
      }
    }
    const { segments } = state();
    expect(segments.reduce((sum, { orders }) => sum + orders, 0)).toBe(150);
    for (const { count, orders } of segments) expect(count).toBe(orders);
    // Two neighbours have more than two orders, half of the most that a segment may have.
    expect(segments.length).toBeLessThanOrEqual(101);
  },
);
