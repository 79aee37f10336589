import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { createApiKey, creation } from "../../../src/operator/keys/key-changes.ts";
import { d1Store } from "../../support/d1-store.ts";
import { MEASURED } from "./operations.ts";

const ORDERS = 5_000;
const KEYS = 500;
const REPORTS = 2_000;

/** Returns a SQL `WITH` clause for a table `numbers`, with the numbers `n` from 0 to `count` - 1. */
const numbers = (count: number) =>
  `WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count - 1})`;

/** Places orders in a bulk change, so that no former states of orders add to the measured size. */
const placeOrders = () =>
  env.ORDERS.batch(
    [
      "INSERT INTO order_bulk_change (id, changed) VALUES (1, 1)",
      `${numbers(ORDERS)} INSERT INTO orders (id, pet_id, quantity, ship_date, complete)
       SELECT 100000000 + n, n % 5000, n % 9,
         strftime('%Y-%m-%dT%H:%M:%fZ', 1764000000 + n * 12.345, 'unixepoch'), n % 3 = 0 FROM numbers`,
      "DELETE FROM order_bulk_change",
    ].map((sql) => env.ORDERS.prepare(sql)),
  );

const reportUsage = () =>
  env.KEYS.prepare(
    `${numbers(REPORTS)} INSERT INTO key_usage SELECT 'key_' || lower(hex(randomblob(8))),
       '2026-11-22', n, n % 100, n % 10, 0, n % 60, n % 1000, 60, 1000, 1764000000000 + n FROM numbers`,
  ).run();

async function createKeys(): Promise<void> {
  const settings = { plan: "free", name: "Customer 123", limits: null, expiresAt: null } as const;
  const database = d1Store(env.KEYS);
  const statements = Array.from({ length: KEYS }, () =>
    creation(database.orm, createApiKey(settings, new Date()).record, "operator"),
  ).flat();
  await database.transaction(statements);
}

async function databaseBytes(database: D1Database): Promise<number> {
  return (await database.prepare("SELECT 1").run()).meta.size_after;
}

test.for([
  ["orderBytes", env.ORDERS, ORDERS, placeOrders],
  ["keyBytes", env.KEYS, KEYS, createKeys],
  ["usageReportBytes", env.KEYS, REPORTS, reportUsage],
] as const)("the estimate %s matches the size in D1", async ([name, database, count, fill]) => {
  const before = await databaseBytes(database);
  await fill();
  const measured = ((await databaseBytes(database)) - before) / count;
  expect(measured / MEASURED[name]).toBeGreaterThan(0.85);
  expect(measured / MEASURED[name]).toBeLessThan(1.15);
});
