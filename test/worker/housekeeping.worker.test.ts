import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../src/rules/config.ts";
import { keepHouse } from "../../src/worker/housekeeping.ts";
import service from "../../src/worker/index.ts";
import { brokenDatabase } from "../support/faults.ts";
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

async function read(database: D1Database, query: string): Promise<unknown[]> {
  const rows = await database.prepare(query).raw();
  return rows.map((row) => (row.length === 1 ? row[0] : row));
}

const keep = (vars: Record<string, string> = {}, bindings: Partial<Cloudflare.Env> = {}) =>
  keepHouse({ ...env, ...bindings }, parseConfig({ ...env, ...vars }), NOW);

const listVersions = () =>
  read(env.ORDERS, "SELECT version FROM order_list UNION ALL SELECT version FROM order_segments");
const parts = () => read(env.ORDERS, "SELECT DISTINCT import_id FROM order_import_parts");
const cancelled = () => read(env.ORDERS, "SELECT id FROM cancelled_orders ORDER BY cancelled_at");

function addParts(importId: string, count: number, hoursAgo: number): string {
  return `
    WITH RECURSIVE n (part) AS (SELECT 0 UNION ALL SELECT part + 1 FROM n WHERE part + 1 < ${count})
    INSERT INTO order_import_parts (import_id, part, created_at, lines)
    SELECT '${importId}', part, ms:${hoursAgo}, '[]' FROM n`;
}

const addUsage = (day: string) =>
  `INSERT INTO key_usage VALUES ('a', '${day}', 1, 0, 0, 0, 1, 1, 60, 1000, 0)`;

const NOTHING = {
  event: "housekeeping",
  importParts: 0,
  listLeases: 0,
  orderChanges: 0,
  usageRows: 0,
};

describe("housekeeping", () => {
  test("removes the parts of an import if all of them are older than a day", async () => {
    const late = "UPDATE order_import_parts SET created_at = ms:23 WHERE import_id = 'late'";
    const oneOfThem = `${late} AND part = 1`;
    await run(env.ORDERS, addParts("left", 3, 25), addParts("late", 3, 25), oneOfThem);
    await keep();
    expect(await parts()).toEqual(["late"]);
    expect(eventLines()).toEqual([{ ...NOTHING, importParts: 3, isComplete: true }]);
  });

  test.each([
    // The change of 30 hours ago stays, because a list that began 24 hours ago may need it.
    ["a list of the last day", "", [30, 20, 1], 0],
    ["a list that renewed its lease within a day", "(ms:50 * 1000, ms:23)", [50, 30, 20, 1], 0],
    ["no list any more", "(ms:50 * 1000, ms:25)", [30, 20, 1], 1],
  ])("keeps the former states that %s needs", async (_, lease, kept, listLeases) => {
    const change = (sequence: string) => `(${sequence} * 1000, 'v', 1, 0)`;
    await run(
      env.ORDERS,
      `INSERT INTO order_changes (sequence, version, id, was_listed)
       VALUES ${["ms:60", "ms:50", "ms:30", "ms:20", "ms:1"].map(change).join()}`,
      ...(lease === "" ? [] : [`INSERT INTO order_list_leases VALUES ${lease}`]),
    );
    await keep();
    const hours = (sequence: unknown) => (NOW.getTime() - Number(sequence) / 1_000) / HOUR_MS;
    const left = await read(env.ORDERS, "SELECT sequence FROM order_changes ORDER BY sequence");
    expect(left.map(hours)).toEqual(kept);
    expect(eventLines()).toMatchObject([{ listLeases }]);
  });

  test("removes usage older than a year, and keeps what `keys usage` can show", async () => {
    await run(env.KEYS, addUsage("2025-11-20"), addUsage("2025-11-21"));
    await keep();
    expect(await read(env.KEYS, "SELECT day FROM key_usage")).toEqual(["2025-11-21"]);
  });

  test("removes cancelled orders only if a time is configured, and does not change the list's version", async () => {
    await run(
      env.ORDERS,
      "INSERT INTO orders (id) VALUES (1)",
      `INSERT INTO cancelled_orders (cancelled_at, id) VALUES (ms:${31 * 24}, 2), (ms:${29 * 24}, 3),
       (ms:${28 * 24}, 2)`,
    );
    const versions = await listVersions();
    await keep();
    expect(await cancelled()).toEqual([2, 3, 2]);
    await keep({ CANCELLED_ORDER_DAYS: "30" });
    // Order 2 was imported again. Its second cancellation, 28 days ago, stays.
    expect(await cancelled()).toEqual([3, 2]);
    expect(await listVersions()).toEqual(versions);
  });

  test("removes a limited number of rows in each run, and the rest in the next run", async () => {
    await run(
      env.ORDERS,
      addParts("left", 101, 25),
      `WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 50000)
       INSERT INTO cancelled_orders (cancelled_at, id) SELECT ms:48 - id, id FROM n`,
    );
    await keep({ CANCELLED_ORDER_DAYS: "1" });
    expect(await read(env.ORDERS, "SELECT count(*) FROM order_import_parts")).toEqual([1]);
    // Housekeeping removes the oldest cancellations first, so the latest one is left.
    expect(await cancelled()).toEqual([0]);
    await keep({ CANCELLED_ORDER_DAYS: "1" });
    expect([await parts(), await cancelled()]).toEqual([[], []]);
    await keep({ CANCELLED_ORDER_DAYS: "1" });
    expect(eventLines()).toEqual([
      { ...NOTHING, importParts: 100, cancelledOrders: 50_000, isComplete: false },
      { ...NOTHING, importParts: 1, cancelledOrders: 1, isComplete: true },
    ]);
  });

  test("does the other chores if one chore fails, logs the failure and rejects", async () => {
    await run(env.KEYS, addUsage("2020-01-01"));
    const vars = { DATABASE_TIMEOUT_MS: "200" };
    await expect(keep(vars, brokenDatabase("ORDERS"))).rejects.toThrow("did not answer");
    expect(await read(env.KEYS, "SELECT day FROM key_usage")).toEqual([]);
    expect(eventLines()).toMatchObject([
      { event: "housekeeping_failed", chore: "importParts" },
      { event: "housekeeping_failed", chore: "listLeases" },
      { event: "housekeeping_failed", chore: "orderChanges" },
      { event: "housekeeping", usageRows: 1, isComplete: false },
    ]);
  });

  test("runs when the Worker's cron trigger fires, and uses the trigger's scheduled time", async () => {
    await run(env.ORDERS, addParts("left", 1, 25));
    const fire = (scheduledTime: Date) =>
      service.scheduled(createScheduledController({ scheduledTime }), env);
    await fire(new Date(NOW.getTime() - DAY_MS));
    expect(await parts()).toEqual(["left"]);
    await fire(NOW);
    expect(await parts()).toEqual([]);
  });
});
