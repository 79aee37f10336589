import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { parseConfig } from "../../src/rules/config.ts";
import { keepHouse } from "../../src/worker/housekeeping.ts";
import service from "../../src/worker/index.ts";
import { brokenDatabase, fail } from "../support/faults.ts";
import { eventLines } from "../support/written-lines.ts";
import { DAY_MS, HOUR_MS } from "../support/clock.ts";

const NOW = new Date("2026-11-22T08:23:00Z");

/** Runs statements, in which `ms:N` is the Unix time in milliseconds N hours before `NOW`. */
async function run(database: D1Database, ...statements: readonly string[]): Promise<void> {
  const timed = statements.map((text) =>
    text.replaceAll(/ms:(\d+)/g, (_, hours) => String(NOW.getTime() - Number(hours) * HOUR_MS)),
  );
  await database.batch(timed.map((text) => database.prepare(text)));
}

/** Returns the values of a column. */
async function read(database: D1Database, query: string): Promise<unknown[]> {
  return (await database.prepare(query).raw()).flat();
}

const keep = (vars: Record<string, string> = {}, bindings: Partial<Cloudflare.Env> = {}) =>
  keepHouse({ ...env, ...bindings }, parseConfig({ ...env, ...vars }), NOW);

const parts = () => read(env.ORDERS, "SELECT DISTINCT import_id FROM order_import_parts");
const cancelled = () => read(env.ORDERS, "SELECT id FROM cancelled_orders ORDER BY cancelled_at");
const usage = () => read(env.KEYS, "SELECT day FROM key_usage");

function addParts(importId: string, count: number): string {
  return `
    WITH RECURSIVE n (part) AS (SELECT 0 UNION ALL SELECT part + 1 FROM n WHERE part + 1 < ${count})
    INSERT INTO order_import_parts (import_id, part, created_at, lines)
    SELECT '${importId}', part, ms:25, '[]' FROM n`;
}

const addUsage = (day: string) =>
  `INSERT INTO key_usage VALUES ('a', '${day}', 1, 0, 0, 0, 1, 1, 60, 1000, 0)`;

const EVENT = {
  event: "housekeeping",
  importParts: 0,
  listLeases: 0,
  orderChanges: 0,
  usageRows: 0,
};

test("the cron trigger removes, by its scheduled time, abandoned imports after a day, usage after a year, and cancelled orders only if a time is configured", async () => {
  await run(env.KEYS, addUsage("2025-11-20"), addUsage("2025-11-21"));
  await run(
    env.ORDERS,
    addParts("left", 3),
    addParts("late", 3),
    "UPDATE order_import_parts SET created_at = ms:23 WHERE import_id = 'late' AND part = 1",
    // Order 2 was imported again. Its second cancellation, 28 days ago, stays.
    `INSERT INTO cancelled_orders (cancelled_at, id)
     VALUES (ms:${31 * 24}, 2), (ms:${29 * 24}, 3), (ms:${28 * 24}, 2)`,
  );
  const fire = (scheduledTime: Date) =>
    service.scheduled(createScheduledController({ scheduledTime }), env);
  await fire(new Date(NOW.getTime() - DAY_MS));
  expect(eventLines()).toEqual([]);
  await fire(NOW);
  expect([await parts(), await usage()]).toEqual([["late"], ["2025-11-21"]]);
  expect(await cancelled()).toEqual([2, 3, 2]);
  await keep({ CANCELLED_ORDER_DAYS: "30" });
  expect(await cancelled()).toEqual([3, 2]);
  expect(eventLines()).toEqual([
    { ...EVENT, importParts: 3, usageRows: 1, isComplete: true },
    { ...EVENT, cancelledOrders: 1, isComplete: true },
  ]);
});

test("keeps the former states that a list of the last day needs, or an older one that has renewed its lease within a day", async () => {
  const change = (hours: number) => `(ms:${hours} * 1000, 'v', 1, 0)`;
  for (const [leases, kept, listLeases] of [
    // The change of 30 hours ago stays, because a list that began 24 hours ago may need it.
    [[], [30, 20, 1], 0],
    [["(ms:50 * 1000, ms:23)"], [50, 30, 20, 1], 0],
    [["(ms:50 * 1000, ms:25)"], [30, 20, 1], 1],
  ] as const) {
    await run(
      env.ORDERS,
      "DELETE FROM order_changes",
      "DELETE FROM order_list_leases",
      `INSERT INTO order_changes (sequence, version, id, was_listed)
       VALUES ${[60, 50, 30, 20, 1].map(change).join()}`,
      ...leases.map((lease) => `INSERT INTO order_list_leases VALUES ${lease}`),
    );
    await keep();
    const left = await read(env.ORDERS, "SELECT sequence FROM order_changes ORDER BY sequence");
    const hours = left.map((sequence) => (NOW.getTime() - Number(sequence) / 1_000) / HOUR_MS);
    expect(hours).toEqual(kept);
    expect(eventLines().at(-1)).toMatchObject({ listLeases });
  }
});

test("removes a limited number of rows in each run, the oldest first, and the rest in the next run", async () => {
  await run(
    env.ORDERS,
    addParts("left", 101),
    `WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 50000)
     INSERT INTO cancelled_orders (cancelled_at, id) SELECT ms:48 - id, id FROM n`,
  );
  await keep({ CANCELLED_ORDER_DAYS: "1" });
  expect(await cancelled()).toEqual([0]);
  for (let n = 0; n < 2; n++) await keep({ CANCELLED_ORDER_DAYS: "1" });
  expect([await parts(), await cancelled()]).toEqual([[], []]);
  expect(eventLines()).toEqual([
    { ...EVENT, importParts: 100, cancelledOrders: 50_000, isComplete: false },
    { ...EVENT, importParts: 1, cancelledOrders: 1, isComplete: true },
  ]);
});

test("does the other chores if one chore fails, logs the failure and rejects", async () => {
  await run(env.KEYS, addUsage("2020-01-01"));
  const statementFault = brokenDatabase("ORDERS", fail("no such table: orders"));
  await expect(keep({}, statementFault)).rejects.toThrow("no such table");
  expect(await usage()).toEqual([]);
  const failed = ["importParts", "listLeases", "orderChanges"];
  expect(eventLines()).toMatchObject([
    ...failed.map((chore) => ({ event: "housekeeping_failed", chore })),
    { event: "housekeeping", usageRows: 1, isComplete: false },
  ]);
});
