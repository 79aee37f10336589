import type { SQLInputValue } from "node:sqlite";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import { DELETE_ORDER_CHANGES } from "../../../src/worker/housekeeping.ts";
import { INT64_MIN } from "../../../src/rules/int64.ts";
import { readSegments, readSnapshot } from "../../../src/worker/orders/list-queries.ts";
import { ListsUnderWay } from "../../../src/worker/orders/lists-under-way.ts";
import { MAX_SHORTHAND_BYTES } from "../../../src/worker/orders/order-json.ts";
import type { ListSizes } from "../../../src/worker/orders/list-sizes.ts";
import { type ListRequest, OrderLists } from "../../../src/worker/orders/order-lists.ts";
import { SegmentMemory } from "../../../src/worker/orders/segment-memory.ts";
import { bytesOf, readInOrder } from "../../../src/worker/orders/segment-reader.ts";
import { listenTo } from "../../support/written-lines.ts";
import { listOf, openOrderDatabase, versionOf } from "./isolates/order-database.ts";
import { expander } from "./isolates/world.ts";

let database: ReturnType<typeof openOrderDatabase>;
beforeEach(() => void (database = openOrderDatabase()));
afterEach(() => {
  vi.useRealTimers();
  database.close();
});

/** Wraps a SQLite database as a D1 database. Calls `see` with each statement and its bound values. */
function seenThrough(
  see: (sql: string, values: SQLInputValue[]) => void,
  sqlite = database,
): D1Database {
  const all = (sql: string, values: SQLInputValue[]) => {
    see(sql, values);
    return Promise.resolve({ results: sqlite.prepare(sql).all(...values), meta: {} });
  };
  const prepare = (sql: string) => ({ bind: (...v: []) => ({ all: () => all(sql, v) }) });
  const source = { prepare, withSession: () => source };
  return source as unknown as D1Database;
}

const requestOf = (d1: D1Database): ListRequest => ({
  database: d1,
  keyId: "key",
  knownVersions: [],
  log: () => undefined,
  waitUntil: (promise) => void promise.catch(() => undefined),
});

test("each request that shares a query receives the result for the versions it already has", async () => {
  let queries = 0;
  const request = requestOf(seenThrough(() => (queries += 1)));
  const sizes = { concurrency: 1 };
  const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander, { sizes });
  const known = versionOf(database);
  const requests = [
    { ...request, knownVersions: "*" as const },
    { ...request, knownVersions: [known] },
    { ...request, knownVersions: [known] },
    { ...request, knownVersions: ["invented"] },
  ];
  const answers = requests.map(async (one) => lists.answer(await lists.read(one), one).body);
  expect(await Promise.all(answers)).toStrictEqual([null, null, null, "[]"]);
  expect(queries).toBe(2);
  // The second list differs from the first one, but has the same length.
  for (const id of [1, 2]) {
    database.exec(`DELETE FROM orders; INSERT INTO orders (id) VALUES (${id})`);
    const { body } = lists.answer(await lists.read(request), request);
    expect(await new Response(body).text()).toBe(`[{"id":${id}}]`);
  }
});

test("a list of many queries has every order once, above 2^53 too", async () => {
  database.exec(`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT 200)
    INSERT INTO orders (id) SELECT ${2n ** 53n} + i FROM n`);
  const request = requestOf(seenThrough(() => undefined));
  const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander);
  const { body } = lists.answer(await lists.read(request), request);
  expect(await new Response(body).text()).toBe(listOf(database));
});

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

const segmentsOf = (segments: number, count: number) =>
  Array.from({ length: segments }, (_, n) => ({
    firstId: String(n),
    lastId: String(n),
    version: String(n),
    count,
  }));

test.each([4, 99])("a list queries in groups what memory lacks; own segments: %i", async (own) => {
  const segments = segmentsOf(13, 1);
  const memory = new SegmentMemory(2_000);
  memory.setManifest({ version: "list", sequence: 1, segments });
  for (const version of ["1", "6", "8", "9", "10", "11"]) memory.add(version, "");
  const queried: string[][] = [];
  const texts = readInOrder(segments, {
    texts: new Map(),
    memory,
    reservation: new ListsUnderWay(10_000, 60_000).reserve(0)!,
    ownBytes: own * MAX_SHORTHAND_BYTES,
    sizes: { groupSegments: 4, groupsAhead: 2 },
    read: async (group) => {
      const versions = group.map(({ version }) => version);
      queried.push(versions);
      if (!versions.includes("12")) return new Map(versions.map((version) => [version, ""]));
      // Another list adds this segment to the memory, so this list need not wait for its query.
      memory.add("12", "");
      return new Promise(() => undefined);
    },
  });
  let sent = 0;
  for await (const _ of texts) sent += 1;
  expect(sent).toBe(13);
  expect(queried).toStrictEqual([["0", "2", "3"], ["4", "5", "7"], ["12"]]);
});

test("a list keeps its memory while its client reads, and loses it after a minute", () => {
  vi.useFakeTimers({ toFake: ["Date"], now: 0 });
  const underWay = new ListsUnderWay(10, 60_000);
  const reservation = underWay.reserve(10)!;
  vi.setSystemTime(60_000);
  reservation.progressed();
  vi.setSystemTime(120_000);
  expect(underWay.reserve(1)).toBeNull();
  vi.setSystemTime(120_001);
  expect(underWay.reserve(1)).not.toBeNull();
});

test.each([
  [1_000_000, 1],
  [0, 3],
])(
  "a list with %i bytes of segment memory reserves %i segments for a query",
  async (bytes, count) => {
    for (let id = 1; id <= 20; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
    const underWay = new ListsUnderWay(1_000_000, 60_000);
    const sizes = { sliceBytes: 1, queryBytes: 1, groupSegments: 3 };
    const options = { memory: new SegmentMemory(bytes), underWay, sizes };
    const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander, options);
    const request = requestOf(seenThrough(() => undefined));
    const snapshot = await lists.read(request);
    lists.answer(snapshot, request);
    const largest = Math.max(...snapshot.manifest!.segments.map((segment) => segment.count));
    expect(underWay.bytes - bytesOf(snapshot.texts)).toBe(
      2 + count * largest * MAX_SHORTHAND_BYTES,
    );
  },
);

test("segments of a former manifest take no memory", () => {
  const memory = new SegmentMemory(300);
  for (const segment of segmentsOf(3, 1)) {
    memory.setManifest({ version: segment.version, sequence: 1, segments: [segment] });
    memory.add(segment.version, "orders");
    expect(memory.get(segment.version)).toBe("orders");
  }
});

test.each([0, 1])(
  "a list reserves what it holds, and frees it; known segments: %i",
  async (known) => {
    const underWay = new ListsUnderWay(24_000, 60_000);
    const ownBytes = 1_000;
    const reservation = underWay.reserve(ownBytes)!;
    reservation.grow(known * 10 * MAX_SHORTHAND_BYTES);
    const segments = segmentsOf(40, 10);
    const text = "x".repeat(10 * MAX_SHORTHAND_BYTES);
    const held = new Map(segments.slice(0, known).map(({ version }) => [version, text]));
    let queried = known;
    let most = 0;
    let sent = 0;
    const ahead: number[] = [];
    const groups: WeakRef<object>[] = [];
    const texts = readInOrder(segments, {
      texts: held,
      memory: new SegmentMemory(0),
      reservation,
      ownBytes,
      sizes: { groupSegments: 4, groupsAhead: 3 },
      read: async (group) => {
        queried += group.length;
        const found = new Map(group.map(({ version }) => [version, text]));
        groups.push(new WeakRef(found));
        return found;
      },
    });
    for await (const _ of texts) {
      expect(underWay.bytes).toBeGreaterThanOrEqual((queried - sent) * text.length);
      most = Math.max(most, underWay.bytes);
      ahead.push(queried - sent);
      sent += 1;
      if (sent !== 36) continue;
      await new Promise((resolve) => void setTimeout(resolve));
      collectGarbage();
      // 36 of the 40 segments are sent, so only the current and the last group may be in memory.
      expect(groups.filter((group) => group.deref() !== undefined).length).toBeLessThan(3);
    }
    expect(held.size).toBe(0);
    // From the second segment until all are queried, more than 8 segments are read ahead.
    expect(ahead[0]).toBe(1);
    expect(Math.max(...ahead)).toBe(3 * 4);
    expect(Math.min(...ahead.slice(1, 28))).toBeGreaterThan(2 * 4);
    expect(most).toBeGreaterThan(10_000);
    expect(underWay.bytes).toBe(ownBytes);
  },
);

test("a request that waits for another one's silent replica is answered by the primary database", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  listenTo("warn");
  const all = () => new Promise(() => undefined);
  const withSession = () => ({ prepare: () => ({ bind: () => ({ all }) }) });
  const request = requestOf({ ...seenThrough(() => undefined), withSession } as never);
  const options = { listReads: "nearest", sizes: { concurrency: 1 } } as const;
  const lists = new OrderLists(new DatabaseQueries("orders", 100), expander, options);
  const snapshots = Promise.all([lists.read(request), lists.read(request)]);
  await vi.advanceTimersByTimeAsync(1_000);
  const expected = { version: versionOf(database), servedBy: { isPrimary: true } };
  expect(await snapshots).toMatchObject([expected, expected]);
});

test("a list that shares its query is as new as the newest change that its key has seen", async () => {
  const stale = openOrderDatabase();
  database.exec("INSERT INTO orders (id) VALUES (1)");
  const withSession = () => seenThrough(() => undefined, stale);
  const request = requestOf({ ...seenThrough(() => undefined), withSession } as never);
  const options = { listReads: "nearest", sizes: { concurrency: 1 } } as const;
  const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander, options);
  await lists.renew(await lists.read(request), request, Infinity);
  const other = { ...request, keyId: "other" };
  const snapshots = await Promise.all([other, request, other].map((one) => lists.read(one)));
  const versions = snapshots.map(({ version }) => version);
  const newest = versionOf(database);
  expect(versions).toStrictEqual([versionOf(stale), newest, newest]);
  stale.close();
});

test("the first piece of a list needs one query, whatever memory lacks", async () => {
  for (let id = 1; id <= 20; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
  let queries = 0;
  const request = requestOf(seenThrough(() => (queries += 1)));
  const options = { memory: new SegmentMemory(0), sizes: { missingWithManifest: 1 } };
  const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander, options);
  for (const expected of [1, 2]) {
    const { body } = lists.answer(await lists.read(request), request);
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    expect(queries).toBe(expected);
    await reader.cancel();
  }
});

test("a list is refused if it is too long, or if the lists that are sent use the memory", async () => {
  for (let id = 1; id <= 8; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
  const events: string[] = [];
  const request = {
    ...requestOf(seenThrough(() => undefined)),
    log: (e: string) => events.push(e),
  };
  const start = async (sizes: Partial<ListSizes>) => {
    const queries = new DatabaseQueries("orders", 1_000);
    const lists = new OrderLists(queries, expander, { sizes: { sliceBytes: 9, ...sizes } });
    const snapshot = await lists.read(request);
    return () => lists.answer(snapshot, request).body as ReadableStream<Uint8Array>;
  };
  const refusal = (message: RegExp, retryAfter: string) =>
    expect.objectContaining({
      code: "service_unavailable",
      message: expect.stringMatching(message),
      headers: { "Retry-After": retryAfter },
    });
  const segments = Number(database.prepare("SELECT count(*) AS n FROM order_segments").get()!["n"]);
  const longest = (await start({ maxSegments: segments }))();
  expect(await new Response(longest).json()).toHaveLength(8);
  expect(await start({ maxSegments: segments - 1 })).toThrow(refusal(/more orders than/, "3600"));
  const list = await start({ underWayBytes: 1 });
  const first = list();
  expect(list).toThrow(refusal(/too many long lists/, "5"));
  await first.cancel();
  expect(await new Response(list()).json()).toHaveLength(8);
  expect(events).toStrictEqual(["order_list_too_long", "order_lists_too_many"]);
});

test("a list that may not hold the segments of its snapshot reads them again", async () => {
  for (let id = 1; id <= 8; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
  let queries = 0;
  const keptAlive: unknown[] = [];
  const request = {
    ...requestOf(seenThrough(() => (queries += 1))),
    waitUntil: (promise: Promise<unknown>) => void keptAlive.push(promise),
  };
  const underWay = new ListsUnderWay(0, 60_000);
  // This memory is too small for the 8 orders, so one query reads a group of segments.
  const options = { memory: new SegmentMemory(255), underWay, sizes: { queryBytes: 0 } };
  const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander, options);
  const { body } = lists.answer(await lists.read(request), request);
  expect(await new Response(body).text()).toBe(listOf(database));
  expect(queries).toBe(2);
  // The request stays alive until every query settles, even if the client disconnects.
  expect(keptAlive).toHaveLength(queries);
});

test("a list in memory outlives the former states of insertions that changed nothing", async () => {
  const insert =
    "INSERT INTO orders (id) VALUES (1), (2), (3), (4), (5), (6) ON CONFLICT DO NOTHING";
  database.exec(insert);
  const request = requestOf(seenThrough(() => undefined));
  const lists = new OrderLists(new DatabaseQueries("orders", 1_000), expander);
  await lists.read(request);
  database.exec(insert);
  const before = listOf(database);
  database.prepare(DELETE_ORDER_CHANGES.sql).run(Date.now() + 86_400_000, 1_000);
  const { body } = lists.answer(await lists.read(request), request);
  database.exec("UPDATE orders SET quantity = 1");
  await lists.read(request);
  expect(await new Response(body).text()).toBe(before);
});

test("reading a few segments does not scan others, whatever the statistics of SQLite say", async () => {
  for (let id = 1; id <= 40; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
  database.exec("ANALYZE");
  let plan: string[] = [];
  const d1 = seenThrough((sql, values) => {
    const rows = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
    plan = rows.map(({ detail }) => String(detail));
  });
  const segments = segmentsOf(1, 1);
  await readSegments(d1, { version: "v", sequence: 0, segments }, segments);
  expect(plan.filter((step) => /^SCAN (?:orders|order_\w+|segment)/.test(step))).toStrictEqual([]);
  expect(plan.filter((step) => step.startsWith("SEARCH orders")).length).toBe(2);
});

test("segments are read only from a database that knows the manifest's change, even if their versions are the same", async () => {
  for (let id = 1; id <= 6; id += 1) database.exec(`INSERT INTO orders (id) VALUES (${id})`);
  database.exec("SAVEPOINT earlier");
  // The second segment becomes empty, so the range of the first segment grows.
  database.exec("DELETE FROM orders WHERE id > 2");
  const d1 = seenThrough(() => undefined);
  const needs = { needsManifest: true, knownVersions: [], segmentVersions: [], maxMissing: 0 };
  const { manifest } = await readSnapshot(d1, needs);
  const [segment] = manifest!.segments;
  const read = () => readSegments(d1, manifest!, manifest!.segments);
  expect([...(await read()).values()]).toStrictEqual(["1pqsni2pqsn"]);
  database.exec("ROLLBACK TO earlier");
  const { version } = database.prepare("SELECT version FROM order_segments").get()!;
  expect(version).toBe(segment!.version);
  expect(await read()).toStrictEqual(new Map());
});

test("the memory for an order is the length of the longest one and its separator", async () => {
  database.exec(
    `INSERT INTO orders (id, pet_id, quantity, ship_date, complete)
     VALUES (${INT64_MIN}, ${INT64_MIN}, ${INT64_MIN}, '9999-12-31T23:59:59.999Z', 0)`,
  );
  const needs = { needsManifest: true, knownVersions: [], segmentVersions: [], maxMissing: 1 };
  const { texts } = await readSnapshot(
    seenThrough(() => undefined),
    needs,
  );
  expect([...texts.values()].map(({ length }) => length + 1)).toStrictEqual([MAX_SHORTHAND_BYTES]);
});
