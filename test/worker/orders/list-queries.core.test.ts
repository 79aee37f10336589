import type { SQLInputValue } from "node:sqlite";
import { setTimeout } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import {
  type ListEvent,
  type ListRequest,
  OrderLists,
} from "../../../src/worker/orders/order-lists.ts";
import type { CacheStore } from "../../../src/worker/orders/segment-cache.ts";
import { SegmentMemory } from "../../../src/worker/orders/segment-memory.ts";
import { readSegments } from "../../../src/worker/orders/segment-query.ts";
import { ListMovedError } from "../../../src/worker/orders/segment-source.ts";
import { Shorthand } from "../../../src/worker/orders/shorthand.ts";
import { listOf, openOrderDatabase, versionOf } from "./isolates/order-database.ts";
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
  const source = { prepare, withSession: () => source };
  return source as unknown as D1Database;
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
  const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander);
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
  const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander, { sizes });
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
    memory.add(version, new Shorthand(""));
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

/** A cache of a data centre in which nothing is lost. */
function openMapCache(): () => Promise<CacheStore> {
  const entries = new Map<string, string>();
  const cache: CacheStore = {
    has: async (name) => entries.has(name),
    match: async (name) => Uint8Array.from(Buffer.from(entries.get(name) ?? "")),
    put: async (name, text) => void entries.set(name, text),
  };
  return async () => cache;
}

describe("a slow client's list is read ahead", () => {
  const openNoCache = () => Promise.reject(new Error("There is no cache."));

  test.for([
    ["into memory", { memoryBytes: 100_000, openCache: openNoCache, isWhole: true }],
    ["into the cache", { memoryBytes: 0, openCache: openMapCache(), isWhole: true }],
    [
      "no further than its turn, without both",
      { memoryBytes: 0, openCache: openNoCache, isWhole: false },
    ],
  ] as const)("%s", async ([, { memoryBytes, openCache, isWhole }]) => {
    for (let id = 1; id <= 60; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
    const before = listOf(database);
    let queries = 0;
    const events: ListEvent[] = [];
    const request = {
      ...requestOf(seenThrough(() => (queries += 1))),
      log: (event: ListEvent) => void events.push(event),
    };
    const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander, {
      openCache,
      memory: new SegmentMemory(memoryBytes, 0),
      sizes: { missingWithManifest: 2, groupSegments: 2, sliceBytes: 10 },
    });
    const { body } = lists.answer(await lists.read(request), request);
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    const pieces = [(await reader.read()).value!];
    for (let seen = -1; seen !== queries;) {
      seen = queries;
      await setTimeout(20);
    }
    database.exec("UPDATE orders SET quantity = 1 WHERE id = 60");

    const rest = async () => {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        pieces.push(read.value);
      }
      return Buffer.concat(pieces).toString();
    };
    if (isWhole) expect(await rest()).toBe(before);
    else await expect(rest()).rejects.toThrow(ListMovedError);
    expect(events).toStrictEqual(isWhole ? [] : ["order_list_moved"]);
  });
});
