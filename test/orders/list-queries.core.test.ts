import type { SQLInputValue } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DatabaseQueries } from "../../src/db/availability.ts";
import { type ListRequest, OrderLists } from "../../src/orders/order-lists.ts";
import { SegmentMemory } from "../../src/orders/segment-memory.ts";
import { readSegments } from "../../src/orders/segment-query.ts";
import { Shorthand } from "../../src/orders/shorthand.ts";
import { openOrderDatabase, versionOf } from "./isolates/order-database.ts";
import { expander } from "./isolates/world.ts";

let database: ReturnType<typeof openOrderDatabase>;
beforeEach(() => void (database = openOrderDatabase()));
afterEach(() => database.close());

/** The database as the service sees it. @param see what was sent. */
function seenThrough(see: (sql: string, values: SQLInputValue[]) => void): D1Database {
  const all = (sql: string, values: SQLInputValue[]) => {
    see(sql, values);
    return Promise.resolve({ results: database.prepare(sql).all(...values) });
  };
  const prepare = (sql: string) => ({ bind: (...v: []) => ({ all: () => all(sql, v) }) });
  return { prepare } as unknown as D1Database;
}

const requestOf = (d1: D1Database): ListRequest => ({
  database: d1,
  knownVersions: [],
  isHead: false,
  log: () => undefined,
  waitUntil: (promise) => void promise.catch(() => undefined),
});

test("what a list sends to the database does not grow with the changes before it", async () => {
  const sent: number[] = [];
  const request = requestOf(
    seenThrough((_, values) => sent.push(values.map(String).join().length)),
  );
  const lists = new OrderLists(new DatabaseQueries(1_000), expander);
  for (let n = 1; n <= 50; n += 1) {
    database.exec("INSERT OR REPLACE INTO orders (id) VALUES (1)");
    lists.answer(await lists.read(request), request);
  }
  expect(sent.at(-1)).toBe(sent[1]);
});

test("requests that share a query are answered each by what it knows", async () => {
  let queries = 0;
  const request = requestOf(seenThrough(() => (queries += 1)));
  const sizes = { concurrency: 1 };
  const lists = new OrderLists(new DatabaseQueries(1_000), expander, { sizes });
  const requests = [
    { ...request, isHead: true },
    { ...request, knownVersions: [versionOf(database)] },
    { ...request, knownVersions: ["invented"] },
  ];
  const answers = requests.map(async (one) => lists.answer(await lists.read(one), one).body);
  expect(await Promise.all(answers)).toStrictEqual([null, null, "[]"]);
  expect(queries).toBe(2);
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
  let plan = "";
  const d1 = seenThrough((sql, values) => {
    plan = JSON.stringify(database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values));
  });
  await readSegments(d1, [{ firstId: "1", version: "v", count: 1 }]);
  expect(plan).toMatch(/SEARCH segment USING INTEGER PRIMARY KEY/);
});
