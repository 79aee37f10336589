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

/**
 * Wraps the SQLite database as a D1 database. Calls `see` with each statement and its bound values.
 */
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

test("the size of query parameters does not grow with the number of earlier changes", async () => {
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

test("each request that shares a query receives the result for the versions it already has", async () => {
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

test("segments without orders also count towards the memory limit", () => {
  const memory = new SegmentMemory(10_000, 10_000);
  for (let n = 0; n < 1_000; n += 1) {
    const version = `version ${n}`;
    memory.renew({ version, segments: [{ firstId: "0", version, count: 0 }] });
    memory.add(version, new Shorthand(""));
  }
  expect(memory.get("version 999")).toBeDefined();
  expect(memory.get("version 0")).toBeUndefined();
});

test("reading a few segments does not scan other segments, whatever the statistics of SQLite say", async () => {
  for (let id = 1; id <= 40; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
  database.exec("ANALYZE");
  let plan = "";
  const d1 = seenThrough((sql, values) => {
    plan = JSON.stringify(database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values));
  });
  await readSegments(d1, [{ firstId: "1", version: "v", count: 1 }]);
  expect(plan).toMatch(/SEARCH segment USING INTEGER PRIMARY KEY/);
});

/** A test double of the cache that never fails and never evicts entries. */
class MapCache implements CacheStore {
  readonly entries = new Map<string, string>();

  async has(name: string): Promise<boolean> {
    return this.entries.has(name);
  }

  async match(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const text = this.entries.get(name);
    return text === undefined ? undefined : Uint8Array.from(Buffer.from(text));
  }

  async put(name: string, text: string): Promise<void> {
    this.entries.set(name, text);
  }
}

describe("a list of many segments", () => {
  const GROUP_SEGMENTS = 2;
  const NO_CACHE = null;
  /** Prefetching counts as finished after this many waits of 1 ms without a query. */
  const IDLE_TURNS = 20;

  beforeEach(() => {
    for (let id = 1; id <= 60; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
  });

  /** Requests a list in a new isolate, which has no segments in memory. */
  async function beginList({
    cache,
    memoryBytes = 0,
    cacheCalls = 1_000,
  }: {
    cache: CacheStore | null;
    memoryBytes?: number;
    cacheCalls?: number;
  }) {
    /** For each query of a group of segments: its only parameter, which names the segments. */
    const groupsRead: SQLInputValue[] = [];
    const events: ListEvent[] = [];
    const keptAlive: Promise<unknown>[] = [];
    const d1 = seenThrough((_, values) => {
      if (values.length === 1) groupsRead.push(...values);
    });
    const request: ListRequest = {
      ...requestOf(d1),
      log: (event) => void events.push(event),
      waitUntil: (promise) => void keptAlive.push(promise),
    };
    const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander, {
      openCache: () =>
        cache === null ? Promise.reject(new Error("There is no cache.")) : Promise.resolve(cache),
      memory: new SegmentMemory(memoryBytes, 0),
      sizes: {
        missingWithManifest: 2,
        groupSegments: GROUP_SEGMENTS,
        sliceBytes: 10,
        cacheCalls,
      },
    });
    const { body } = lists.answer(await lists.read(request), request);
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    const pieces: Uint8Array[] = [];
    return {
      groupsRead,
      events,
      keptAlive,
      /** Reads the first piece of the list, and waits until prefetching has stopped. */
      async takeFirstPiece(): Promise<void> {
        pieces.push((await reader.read()).value!);
        // Many short timers instead of one long timer: a busy machine delays them and the
        // prefetching alike.
        for (let turns = 0, seen = -1; turns < IDLE_TURNS; turns += 1) {
          if (seen !== groupsRead.length) turns = 0;
          seen = groupsRead.length;
          await setTimeout(1);
        }
      },
      async takeRest(): Promise<string> {
        for (let read = await reader.read(); !read.done; read = await reader.read()) {
          pieces.push(read.value);
        }
        return Buffer.concat(pieces).toString();
      },
    };
  }

  /** Returns the first order id in a group of segments. The first group has only one segment. */
  function firstIdOf(group: number): string {
    const first = database
      .prepare("SELECT CAST(first_id AS TEXT) AS id FROM order_segments ORDER BY first_id")
      .all()[1 + (group - 1) * GROUP_SEGMENTS];
    return String(first?.["id"]);
  }

  test.for([
    ["into memory", { memoryBytes: 100_000, cache: NO_CACHE }, []],
    ["into the cache", { cache: new MapCache() }, []],
    ["only one group ahead, without memory and cache", { cache: NO_CACHE }, ["order_list_moved"]],
  ] as const)("is prefetched for a slow client %s", async ([, options, events]) => {
    const before = listOf(database);
    const list = await beginList(options);
    await list.takeFirstPiece();
    database.exec("UPDATE orders SET quantity = 1 WHERE id = 60");
    if (events.length === 0) expect(await list.takeRest()).toBe(before);
    else await expect(list.takeRest()).rejects.toThrow(ListMovedError);
    expect(list.events).toStrictEqual(events);
  });

  test("sends a prefetched group that the cache did not accept, although its orders have changed since", async () => {
    const cache = new MapCache();
    let puts = 0;
    cache.put = async (name, text) => {
      puts += 1;
      if (puts === 4) throw new Error("Internal error");
      cache.entries.set(name, text);
    };
    const before = listOf(database);
    const list = await beginList({ cache });
    await list.takeFirstPiece();
    database.exec(`UPDATE orders SET quantity = 1 WHERE id = ${firstIdOf(3)}`);
    expect(await list.takeRest()).toBe(before);
    expect(list.events).toStrictEqual([]);
  });

  test("reads no group twice for a slow client, however few cache calls are allowed", async () => {
    for (const cacheCalls of [0, 3, 10, 17, 25, 40]) {
      const list = await beginList({ cache: new MapCache(), cacheCalls });
      await list.takeFirstPiece();
      expect(await list.takeRest()).toBe(listOf(database));
      expect(new Set(list.groupsRead).size, `${cacheCalls}`).toBe(list.groupsRead.length);
    }
  });

  test("keeps the request alive until the last group is in the cache", async () => {
    const cache = new MapCache();
    let putting = 0;
    cache.put = async (name, text) => {
      putting += 1;
      await setTimeout(20);
      cache.entries.set(name, text);
      putting -= 1;
    };
    const list = await beginList({ cache });
    await list.takeRest();
    await Promise.all(list.keptAlive);
    expect(putting).toBe(0);
    const again = await beginList({ cache });
    expect(await again.takeRest()).toBe(listOf(database));
    expect(again.groupsRead).toStrictEqual([]);
  });

  test("reads a group from the database if its entry in the cache is cut off", async () => {
    const cache = new MapCache();
    await (await beginList({ cache })).takeRest();
    for (const [name, text] of cache.entries) cache.entries.set(name, text.slice(0, -1));
    const list = await beginList({ cache });
    expect(await list.takeRest()).toBe(listOf(database));
    expect(list.groupsRead.length).toBeGreaterThan(0);
  });
});
