import type { SQLInputValue } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DatabaseQueries } from "../../src/db/availability.ts";
import { type ListRequest, OrderLists } from "../../src/orders/order-lists.ts";
import { SegmentMemory } from "../../src/orders/segment-memory.ts";
import { readSegments } from "../../src/orders/segment-query.ts";
import { Shorthand } from "../../src/orders/shorthand.ts";
import { openOrderDatabase } from "./isolates/order-database.ts";
import { expander } from "./isolates/world.ts";

let database: ReturnType<typeof openOrderDatabase>;
beforeEach(() => void (database = openOrderDatabase()));
afterEach(() => database.close());

test("what a list sends to the database does not grow with the changes before it", async () => {
  const sent: number[] = [];
  const all = (sql: string, values: SQLInputValue[]) => {
    sent.push(values.join().length);
    return Promise.resolve({ results: database.prepare(sql).all(...values) });
  };
  const d1 = { prepare: (sql: string) => ({ bind: (...v: []) => ({ all: () => all(sql, v) }) }) };
  const request: ListRequest = {
    database: d1 as unknown as D1Database,
    knownVersions: [],
    isHead: false,
    log: () => undefined,
    waitUntil: (promise) => void promise.catch(() => undefined),
  };
  const lists = new OrderLists(new DatabaseQueries(1_000), expander);
  for (let id = 1; id <= 50; id += 1) {
    database.exec(`INSERT OR REPLACE INTO orders (id) VALUES (1)`);
    lists.answer(await lists.read(request), request);
  }
  expect(sent.at(-1)).toBe(sent[1]);
});

test("segments without orders take room in memory too", () => {
  const memory = new SegmentMemory(10_000, 10_000);
  for (let n = 0; n < 1_000; n += 1) {
    const version = `version ${n}`;
    memory.renew({ version, segments: [{ firstId: "0", version, count: 0 }] });
    memory.add(version, Shorthand.fromText(""));
  }
  expect(memory.get("version 999")).toBeDefined();
  expect(memory.get("version 0")).toBeUndefined();
});

test("reading a few segments steps over no other one, whatever statistics say", async () => {
  for (let id = 1; id <= 40; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
  database.exec("ANALYZE");
  let plan: unknown[] = [];
  const all = (sql: string, values: SQLInputValue[]) => {
    plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
    return Promise.resolve({ results: [] });
  };
  const d1 = { prepare: (sql: string) => ({ bind: (...v: []) => ({ all: () => all(sql, v) }) }) };
  await readSegments(d1 as unknown as D1Database, [{ firstId: "1", version: "v", count: 1 }]);
  expect(JSON.stringify(plan)).toMatch(/SEARCH segment USING INTEGER PRIMARY KEY/);
});
