import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { parseConfig } from "../../src/rules/config.ts";
import { keepHouse } from "../../src/worker/housekeeping.ts";
import service from "../../src/worker/index.ts";
import { fail, faultyDatabases, LOST } from "../support/faults.ts";
import { eventLines } from "../support/written-lines.ts";
import { DAY_MS, HOUR_MS } from "../support/clock.ts";

const NOW = new Date("2026-11-22T08:23:00Z");
const ago = (hours: number) => NOW.getTime() - hours * HOUR_MS;
const run = (database: D1Database, ...statements: string[]) =>
  database.batch(statements.map((text) => database.prepare(text)));
const read = async (database: D1Database, query: string) =>
  (await database.prepare(query).raw()).flat();
const keep = (vars: Record<string, string> = {}, bindings: Partial<Cloudflare.Env> = {}) =>
  keepHouse({ ...env, ...bindings }, parseConfig({ ...env, ...vars }), NOW);
const cancelled = () => read(env.ORDERS, "SELECT id FROM cancelled_orders ORDER BY cancelled_at");
const usage = () => read(env.KEYS, "SELECT day FROM key_usage");
const addUsage = (day: string) =>
  `INSERT INTO key_usage VALUES ('a', '${day}', 1, 0, 0, 0, 1, 1, 60, 1000, 0)`;

test("the cron trigger removes, by its scheduled time, abandoned imports after a day, usage after a year, and cancelled orders only if a time is configured", async () => {
  await run(env.KEYS, addUsage("2025-11-20"), addUsage("2025-11-21"));
  await run(
    env.ORDERS,
    `INSERT INTO order_import_parts (import_id, part, created_at, lines)
     VALUES ('left', 0, ${ago(25)}, ''), ('left', 1, ${ago(25)}, ''),
            ('late', 0, ${ago(25)}, ''), ('late', 1, ${ago(23)}, '')`,
    // Order 2 was imported again. Its second cancellation, 28 days ago, stays.
    `INSERT INTO cancelled_orders (cancelled_at, id)
     VALUES (${ago(31 * 24)}, 2), (${ago(29 * 24)}, 3), (${ago(28 * 24)}, 2)`,
  );
  const fire = (scheduledTime: Date) =>
    service.scheduled(createScheduledController({ scheduledTime }), env);
  await fire(new Date(NOW.getTime() - DAY_MS));
  expect(eventLines()).toEqual([]);
  await fire(NOW);
  const parts = await read(env.ORDERS, "SELECT import_id FROM order_import_parts");
  expect([parts, await usage()]).toEqual([["late", "late"], ["2025-11-21"]]);
  expect(await cancelled()).toEqual([2, 3, 2]);
  await keep({ CANCELLED_ORDER_DAYS: "30" });
  expect(await cancelled()).toEqual([3, 2]);
  const kept = { importParts: 0, listLeases: 0, orderChanges: 0, usageRows: 0, isComplete: true };
  expect(eventLines()).toEqual([
    { event: "housekeeping", ...kept, importParts: 2, usageRows: 1 },
    { event: "housekeeping", ...kept, cancelledOrders: 1 },
  ]);
});

test("keeps the former states that a list of the last day needs, or an older one that has renewed its lease within a day", async () => {
  const change = (hours: number) => `(${ago(hours)} * 1000, 'v', 1, 0)`;
  for (const [renewedAgo, kept, listLeases] of [
    // The change of 30 hours ago stays, because a list that began 24 hours ago may need it.
    [null, [30, 20, 1], 0],
    [23, [50, 30, 20, 1], 0],
    [25, [30, 20, 1], 1],
  ] as const) {
    await run(
      env.ORDERS,
      "DELETE FROM order_changes",
      `INSERT INTO order_changes (sequence, version, id, was_listed)
       VALUES ${[60, 50, 30, 20, 1].map(change).join()}`,
      "DELETE FROM order_list_leases",
      `INSERT INTO order_list_leases SELECT ${ago(50)} * 1000, ${ago(renewedAgo ?? 0)}
       WHERE ${renewedAgo !== null} UNION SELECT ${ago(20)} * 1000, ${ago(20)}`,
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
    `WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 50000)
     INSERT INTO cancelled_orders (cancelled_at, id) SELECT ${ago(48)} - 50000 + id, id FROM n`,
  );
  for (const [cancelledOrders, left] of [
    [50_000, [50_000]],
    [1, []],
  ] as const) {
    await keep({ CANCELLED_ORDER_DAYS: "1" });
    expect(await cancelled()).toEqual(left);
    expect(eventLines().at(-1)).toMatchObject({ cancelledOrders, isComplete: left.length === 0 });
  }
});

test("does the other chores if one chore fails, logs the failure and rejects", async () => {
  await run(env.KEYS, addUsage("2020-01-01"));
  const { bindings, script } = faultyDatabases("ORDERS");
  // A query that was lost is repeated.
  script.next(LOST, fail("no such table: parts")).always(fail("no such table: others"));
  await expect(keep({}, bindings)).rejects.toThrow("no such table: parts");
  expect(await usage()).toEqual([]);
  expect(eventLines()).toMatchObject([
    { event: "housekeeping_failed", chore: "importParts" },
    { event: "housekeeping_failed", chore: "listLeases" },
    { event: "housekeeping_failed", chore: "orderChanges" },
    { event: "housekeeping", usageRows: 1, isComplete: false },
  ]);
});
