import fc from "fast-check";
import { expect, it } from "vitest";
import { exportPages } from "../../../src/operator/orders/export-pages.ts";
import { importLines, type MemoryStore, openMemoryStore } from "./memory-store.ts";

interface Line {
  readonly id: number;
  readonly quantity: number;
}

/** Generates some lines of an import file, sometimes more orders than fit in a segment. */
const run = fc
  .record({
    start: fc.integer({ min: -40_000, max: 40_000 }),
    count: fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 15_000 })),
    step: fc.integer({ min: 1, max: 3 }),
    quantity: fc.integer({ min: 0, max: 1 }),
  })
  .map(({ start, count, step, quantity }): Line[] =>
    Array.from({ length: count }, (_, index) => ({ id: start + index * step, quantity })),
  );
const file = fc.array(run, { maxLength: 3 }).map((runs) => runs.flat());

it("after any imports, the store has their orders, and versions name one content", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(file, { maxLength: 4 }), async (files) => {
      const store = openMemoryStore();
      const model = new Map<number, string>();
      const named = new Map<string, string>();
      for (const lines of files) {
        for (const { id, quantity } of lines) {
          model.set(id, `{"id":${id},"quantity":${quantity},"status":"pending"}\n`);
        }
        await importLines(store, lines);
        const ascending = [...model].toSorted(([a], [b]) => a - b).map(([, line]) => line);
        expect(await exported(store)).toBe(ascending.join(""));
        expect(checkSegments(store, named)).toBe(model.size);
      }
      await store.close();
    }),
    // The time limit interrupts shrinking before the test times out, so that a counterexample is
    // shown.
    { numRuns: 10, interruptAfterTimeLimit: 40_000 },
  );
});

async function exported(store: MemoryStore): Promise<string> {
  let lines = "";
  for await (const page of exportPages(store)) lines += page.lines;
  return lines;
}

/**
 * Checks that the stored number of orders of each segment is right, and that each segment version
 * still has the orders that it had when it was first seen.
 *
 * @param named the orders of each version seen so far.
 * @returns the number of orders in all segments.
 */
function checkSegments({ sqlite }: MemoryStore, named: Map<string, string>): number {
  const rows = sqlite
    .prepare(
      `SELECT version, segment.count AS count, count(orders.id) AS found,
         ifnull(group_concat(orders.id || ' ' || quantity), '') AS orders
       FROM (
         SELECT *, lead(first_id, 1, 1000000) OVER (ORDER BY first_id) AS next_id FROM order_segments
       ) AS segment
       LEFT JOIN orders ON orders.id >= first_id AND orders.id < next_id
       GROUP BY first_id`,
    )
    .all() as unknown as { version: string; count: number; found: number; orders: string }[];
  for (const { version, count, found, orders } of rows) {
    expect(count).toBe(found);
    expect(count).toBeLessThanOrEqual(12_288);
    expect(named.get(version) ?? orders).toBe(orders);
    named.set(version, orders);
  }
  return rows.reduce((sum, { found }) => sum + found, 0);
}
