import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import {
  bulkChange,
  MAX_SEGMENT_ORDERS,
  openOrderDatabase,
  prepare,
  versionOf,
} from "./isolates/order-database.ts";

const database = openOrderDatabase();
afterAll(() => database.close());

/** The segments, with the ids and all contents of their orders. */
function segments() {
  const rows = prepare(
    database,
    "SELECT CAST(first_id AS TEXT) AS firstId, version, count FROM order_segments ORDER BY first_id",
  ).all() as { firstId: string; version: string; count: number }[];
  const listed = prepare(
    database,
    "SELECT CAST(id AS TEXT) AS id, concat_ws('|', id, ifnull(quantity, 'none'), status) AS content FROM orders ORDER BY orders.id",
  ).all() as { id: string; content: string }[];
  const orders = listed.map(({ id, content }) => ({ id: BigInt(id), content }));
  return rows.map(({ firstId, version, count }, index) => {
    const [first, next] = [BigInt(firstId), rows[index + 1]?.firstId];
    const last = next === undefined ? INT64_MAX : BigInt(next) - 1n;
    const inside = orders.filter(({ id }) => id >= first && id <= last);
    const content = inside.map((one) => one.content).join();
    return {
      firstId: first,
      version,
      count,
      content,
      ids: inside.map(({ id }) => id),
    };
  });
}

/** One statement, or several ones in a bulk change, with the ids of the affected orders. */
interface Step {
  readonly sql: readonly string[];
  readonly ids: readonly bigint[];
  readonly isBulk?: boolean;
}

const id = fc.oneof(
  { weight: 8, arbitrary: fc.bigInt(1n, 24n) },
  fc.constantFrom(INT64_MIN, INT64_MIN + 1n, -1n, 0n, INT64_MAX - 1n, INT64_MAX),
);
const ids = fc.uniqueArray(id, { minLength: 1, maxLength: 9 });
const quantity = fc.constantFrom("NULL", "1", "2");
const LITERAL = (n: bigint) => (n === INT64_MIN ? "(-9223372036854775807 - 1)" : String(n));
const list = (all: readonly bigint[]) => all.map(LITERAL).join();
const values = (all: readonly bigint[], q: string) =>
  all.map((n) => `(${LITERAL(n)}, ${q})`).join();
const place = (n: bigint) =>
  `INSERT INTO orders (id) SELECT ${LITERAL(n)} WHERE ${LITERAL(n)} NOT IN (SELECT id FROM orders)`;

const STATEMENTS: ((all: readonly bigint[], q: string) => string)[] = [
  (all, q) => `INSERT INTO orders (id, quantity) VALUES ${values(all, q)} ON CONFLICT DO NOTHING`,
  (all, q) => `INSERT OR REPLACE INTO orders (id, quantity) VALUES ${values(all, q)}`,
  (all, q) => `UPDATE orders SET quantity = ${q} WHERE id IN (${list(all)})`,
  ([n = 1n]) => `UPDATE orders SET status = 'shipped' WHERE id = ${LITERAL(n)}`,
  (all) => `DELETE FROM orders WHERE id IN (${list(all)})`,
];

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: STATEMENTS.length,
    arbitrary: fc
      .tuple(fc.constantFrom(...STATEMENTS), ids, quantity)
      .map(([statement, all, q]) => ({ sql: [statement(all, q)], ids: all })),
  },
  ids.map((all) => ({ sql: all.map(place), ids: all, isBulk: true })),
);

/** Runs a step. The database rejects some steps, such as a status change of a shipped order. */
function run({ sql, isBulk = false }: Step): void {
  try {
    const change = () => sql.forEach((statement) => database.exec(statement));
    if (isBulk) bulkChange(database, change);
    else change();
  } catch (error) {
    expect(String(error)).toMatch(/shipped order|UNIQUE/);
  }
}

test("a segment's version always identifies the same orders, and changes only if the orders change", () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
      database.exec("BEGIN");
      try {
        const named = new Map<string, string>();
        for (const one of steps) {
          const before = segments();
          const listBefore = versionOf(database);
          const beforeMs = Date.now();
          run(one);
          // An update to the same values must not change a version.
          const changed = [versionOf(database), segments()];
          prepare(
            database,
            "UPDATE orders SET id = id, quantity = quantity, status = status",
          ).run();
          expect([versionOf(database), segments()]).toStrictEqual(changed);
          // Housekeeping reads the time of a change from its sequence number.
          if (versionOf(database) !== listBefore)
            expect(sequence()).toBeGreaterThanOrEqual(beforeMs * 1_000);
          const after = segments();

          expect(after[0]?.firstId).toBe(INT64_MIN);
          for (const { version, content, count, ids: inside } of after) {
            expect(named.get(version) ?? content).toBe(content);
            named.set(version, content);
            expect(count).toBeGreaterThanOrEqual(inside.length);
            expect(count).toBeLessThanOrEqual(MAX_SEGMENT_ORDERS);
          }
          const joined = (rows: typeof after, field: "content" | "version") =>
            rows.map((row) => row[field]).join();
          const isNew = versionOf(database) !== listBefore;
          expect(isNew).toBe(joined(before, "version") !== joined(after, "version"));
          if (joined(before, "content") !== joined(after, "content")) expect(isNew).toBe(true);
          if (one.isBulk) continue;
          // A segment keeps its version if the change affected none of its orders.
          for (const segment of after) {
            const earlier = before.find(({ firstId }) => firstId === segment.firstId);
            if (earlier === undefined || earlier.content !== segment.content) continue;
            if (segment.ids.some((n) => one.ids.includes(n))) continue;
            const ownerOf = (n: bigint) => before.findLast(({ firstId }) => firstId <= n);
            if (!one.ids.some((n) => ownerOf(n) === earlier))
              expect(segment.version).toBe(earlier.version);
          }
        }
      } finally {
        database.exec("ROLLBACK");
      }
    }),
    { numRuns: 300 },
  );
}, 60_000);

test("A store whose orders come and go stays listable: neighbouring segments that have become small are joined", () => {
  for (const order of ["id", "-id", "abs(random())"]) {
    database.exec("BEGIN");
    database.exec(`WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 600)
      INSERT INTO orders (id) SELECT id FROM n`);
    const doomed = database.prepare(`SELECT id FROM orders WHERE id % 4 ORDER BY ${order}`).all();
    for (const { id: one } of doomed)
      prepare(database, "DELETE FROM orders WHERE id = ?").run(one!);
    const rows = segments();
    expect(rows.flatMap(({ ids: inside }) => inside)).toHaveLength(150);
    for (const { count, ids: inside } of rows) expect(count).toBe(inside.length);
    // Two neighbours have more than two orders, half of the most that a segment may have.
    expect(rows.length).toBeLessThanOrEqual(101);
    database.exec("ROLLBACK");
  }
});

test("a bulk change keeps no former states", () => {
  database.exec("BEGIN");
  database.exec("INSERT INTO orders (id) VALUES (1)");
  const rows = () => database.prepare("SELECT count(*) AS n FROM order_changes").get()!["n"];
  const before = Number(rows());
  database.exec(`INSERT INTO order_bulk_change (id) VALUES (1)`);
  database.exec("INSERT OR REPLACE INTO orders (id, quantity) VALUES (1, 5), (2, 5)");
  database.exec("DELETE FROM order_bulk_change");
  expect(Number(rows()) - before).toBe(1);
  database.exec("ROLLBACK");
});

function sequence(): number {
  return Number(prepare(database, "SELECT sequence FROM order_list").get()?.["sequence"]);
}
