import type { SQLInputValue } from "node:sqlite";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { INT64_MIN } from "../../../src/rules/int64.ts";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import { ListDatabase, type Segment } from "../../../src/worker/orders/list-database.ts";
import { ListPlaces } from "../../../src/worker/orders/list-places.ts";
import { LIST_SIZES } from "../../../src/worker/orders/list-sizes.ts";
import { SegmentReader } from "../../../src/worker/orders/list-stream.ts";
import { type ListRequest, OrderLists } from "../../../src/worker/orders/order-lists.ts";
import { SegmentMemory } from "../../../src/worker/orders/segment-memory.ts";
import { MAX_SHORTHAND_BYTES } from "../../../src/worker/orders/shorthand/letters.ts";
import { listenTo } from "../../support/written-lines.ts";
import { expander } from "./isolates/expander.ts";
import {
  deleteChangesBefore,
  listOf,
  openOrderDatabase,
  versionOf,
} from "./isolates/order-database.ts";

let database: ReturnType<typeof openOrderDatabase>;
beforeEach(() => void (database = openOrderDatabase()));
afterEach(() => {
  vi.useRealTimers();
  database.close();
});

const TIMEOUT_MS = 10_000;
const queries = () => new DatabaseQueries("orders", TIMEOUT_MS);
const after = (ms: number) => new Promise<void>((resolve) => void setTimeout(resolve, ms));

/** Wraps a SQLite database as a D1 database. Calls `see` before each statement. */
function d1Of(
  see: (sql: string, values: SQLInputValue[]) => unknown = () => undefined,
  sqlite = database,
): D1Database {
  const all = async (sql: string, values: SQLInputValue[]) => {
    await see(sql, values);
    return { results: sqlite.prepare(sql).all(...values), meta: {} };
  };
  const prepare = (sql: string) => ({ bind: (...v: []) => ({ all: () => all(sql, v) }) });
  return { prepare } as unknown as D1Database;
}

/** Wraps a primary database and a replica, which all sessions read. */
const withReplica = (primary: D1Database, replica: D1Database) =>
  ({ ...primary, withSession: () => replica }) as unknown as D1Database;

function requestOf(d1: D1Database, known: string[] | "*" = [], changes = {}): ListRequest {
  const tags = known === "*" ? known : known.map((value) => ({ value, isWeak: false }));
  return {
    database: d1,
    keyId: "key",
    preconditions: { ifMatch: null, ifNoneMatch: tags },
    isHead: false,
    readsEarly: true,
    admission: Promise.resolve(0),
    log: () => undefined,
    waitUntil: (promise) => void promise.catch(() => undefined),
    ...changes,
  };
}

const textOf = async (lists: OrderLists, request: ListRequest) =>
  new Response((await lists.answer(request))?.body).text();

function place(count: number, first = 1n): void {
  const insert = database.prepare("INSERT INTO orders (id) VALUES (?)");
  for (let id = first; id < first + BigInt(count); id += 1n) insert.run(id);
}

const NEEDS = {
  needsManifest: true,
  knownVersions: [],
  segmentVersions: [],
  maxMissing: 1_000,
  atLeast: 0,
};

test("each request that shares a query receives the result for the versions it already has", async () => {
  let sent = 0;
  const d1 = d1Of(() => (sent += 1));
  const lists = new OrderLists(queries(), expander, { sizes: { concurrency: 1 } });
  const known = versionOf(database);
  const requests = ["*" as const, [known], [known], ["invented"]];
  const answers = await Promise.all(requests.map((one) => lists.answer(requestOf(d1, one))));
  expect(answers.map((answer) => answer?.body)).toStrictEqual([null, null, null, "[]"]);
  expect(sent).toBe(2);
  // The second list differs from the first one, but has the same length.
  for (const id of [1, 2]) {
    database.exec(`DELETE FROM orders; INSERT INTO orders (id) VALUES (${id})`);
    expect(await textOf(lists, requestOf(d1))).toBe(`[{"id":${id}}]`);
  }
});

test("a list of many queries has every order once, above 2^53 too, and its first piece needs one query", async () => {
  place(200, 2n ** 53n);
  let sent = 0;
  const d1 = d1Of(() => (sent += 1));
  const sizes = { missingWithManifest: 1, shortBytes: 1 };
  const lists = new OrderLists(queries(), expander, { sizes, memoryBytes: 0 });
  expect(await textOf(lists, requestOf(d1))).toBe(listOf(database));
  sent = 0;
  const body = (await lists.answer(requestOf(d1)))?.body as ReadableStream<Uint8Array>;
  const reader = body.getReader();
  await reader.read();
  expect(sent).toBe(1);
  await reader.cancel();
});

test("a list is refused if it is too long, and a request that is not admitted is not answered", async () => {
  place(8);
  const events: string[] = [];
  const log = (event: string) => void events.push(event);
  const segments = Number(database.prepare("SELECT count(*) AS n FROM order_segments").get()!["n"]);
  const listsOf = (maxSegments: number) =>
    new OrderLists(queries(), expander, { sizes: { maxSegments } });
  expect(JSON.parse(await textOf(listsOf(segments), requestOf(d1Of())))).toHaveLength(8);
  const tooLong = listsOf(segments - 1).answer(requestOf(d1Of(), [], { log }));
  await expect(tooLong).rejects.toMatchObject({
    code: "service_unavailable",
    message: expect.stringMatching(/more orders than/),
    headers: { "Retry-After": "3600" },
  });
  expect(events).toStrictEqual(["order_list_too_long"]);
  const refused = { admission: Promise.resolve(null) };
  expect(await listsOf(segments).answer(requestOf(d1Of(), [], refused))).toBeNull();
});

test("a list in memory outlives the former states of insertions that changed nothing", async () => {
  const insert =
    "INSERT INTO orders (id) VALUES (1), (2), (3), (4), (5), (6) ON CONFLICT DO NOTHING";
  database.exec(insert);
  const lists = new OrderLists(queries(), expander);
  await lists.answer(requestOf(d1Of()));
  database.exec(insert);
  const before = listOf(database);
  deleteChangesBefore(database, Date.now() + 86_400_000);
  const answer = await lists.answer(requestOf(d1Of()));
  database.exec("UPDATE orders SET quantity = 1");
  await lists.answer(requestOf(d1Of()));
  expect(await new Response(answer?.body).text()).toBe(before);
});

test.each([
  ["whole while former states are kept since it began", 0, []],
  [
    "cut off after they are removed, because no client can make the service keep them",
    1_000,
    ["order_list_moved"],
  ],
])("a list that is read slowly is %s", async (_, removedMs, cuts) => {
  vi.useFakeTimers({ toFake: ["Date"] });
  place(40);
  const sizes = { missingWithManifest: 1, shortBytes: 1, groupSegments: 1, groupsAhead: 1 };
  const lists = new OrderLists(queries(), expander, { sizes, memoryBytes: 0 });
  const events: string[] = [];
  const log = (event: string) => void events.push(event);
  const before = listOf(database);
  const begunMs = Date.now();
  const body = (await lists.answer(requestOf(d1Of(), [], { log })))?.body as ReadableStream;
  for (const id of [39, 40]) {
    vi.setSystemTime(Date.now() + 500);
    database.exec(`DELETE FROM orders WHERE id = ${id}`);
  }
  deleteChangesBefore(database, begunMs + removedMs);
  const received = await new Response(body).text().catch(() => "cut off");
  expect(events).toStrictEqual(cuts);
  expect(received).toBe(cuts.length === 0 ? before : "cut off");
});

test("reading a few segments does not scan others, whatever the statistics of SQLite say", async () => {
  place(40);
  database.exec("ANALYZE");
  let plan: string[] = [];
  const d1 = d1Of((sql, values) => {
    const rows = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
    plan = rows.map(({ detail }) => String(detail));
  });
  const segments = [{ firstId: "1", lastId: "1", version: "1", count: 1 }];
  const manifest = { version: "v", sequence: 0, segments };
  await new ListDatabase(queries(), false).segmentsOf(d1, manifest)(segments);
  expect(plan.filter((step) => /^SCAN (?:orders|order_\w+|segment)/.test(step))).toStrictEqual([]);
  expect(plan.filter((step) => step.startsWith("SEARCH orders")).length).toBe(2);
});

test("segments are read only from a database that knows the manifest's change, even if their versions are the same", async () => {
  place(6);
  database.exec("SAVEPOINT earlier");
  // The second segment becomes empty, so the range of the first segment grows.
  database.exec("DELETE FROM orders WHERE id > 2");
  const lists = new ListDatabase(queries(), false);
  const { manifest } = await lists.snapshot(d1Of(), NEEDS);
  const read = () => lists.segmentsOf(d1Of(), manifest!)(manifest!.segments);
  expect([...(await read()).values()]).toStrictEqual(["1pqsni2pqsn"]);
  database.exec("ROLLBACK TO earlier");
  expect(await read()).toStrictEqual(new Map());
});

test("the longest order in shorthand is as long as the memory for an order", async () => {
  database.exec(
    `INSERT INTO orders (id, pet_id, quantity, ship_date, complete)
     VALUES (${INT64_MIN}, ${INT64_MIN}, ${INT64_MIN}, '9999-12-31T23:59:59.999Z', 0)`,
  );
  const { texts } = await new ListDatabase(queries(), false).snapshot(d1Of(), NEEDS);
  expect([...texts.values()].map(({ length }) => length + 1)).toStrictEqual([MAX_SHORTHAND_BYTES]);
});

test("segments of a former manifest take no memory", () => {
  const memory = new SegmentMemory(300);
  for (const version of ["a", "b", "c"]) {
    const segments = [{ firstId: "1", lastId: "2", version, count: 1 }];
    memory.setManifest({ version, sequence: 1, segments });
    memory.add(version, "orders");
    expect(memory.get(version)).toBe("orders");
  }
});

test.each([1, 3])(
  "a list counts every segment that it holds and reads ahead %i groups, and no segment twice",
  async (groupsAhead) => {
    const segments: Segment[] = Array.from({ length: 40 }, (_, n) => ({
      firstId: String(n),
      lastId: String(n),
      version: String(n),
      count: 10,
    }));
    const memory = new SegmentMemory(10_000);
    memory.setManifest({ version: "list", sequence: 1, segments });
    for (const version of ["6", "8", "9"]) memory.add(version, "");
    const places = new ListPlaces({ heldOrders: 1_000, stallMs: 60_000 });
    const queried: string[] = [];
    const reader = new SegmentReader(segments, {
      memory,
      sizes: { groupSegments: 4, groupsAhead },
      ownSegments: 1,
      read: async (group) => {
        expect(group.length).toBeLessThanOrEqual(4);
        queried.push(...group.map(({ version }) => version));
        return new Map(group.map(({ version }) => [version, version]));
      },
    });
    const holder = { cutOff: () => undefined, forgetAhead: () => reader.forgetAhead() };
    const listPlace = places.take("key", 10, holder)!;
    let sent = 0;
    let most = 0;
    for await (const _ of reader.texts(new Map([["0", "0"]]), listPlace)) {
      const held = queried.filter((version) => Number(version) > sent).length;
      expect(places.held).toBeGreaterThanOrEqual(held * 10);
      most = Math.max(most, held);
      expect(new Set(queried).size).toBe(queried.length);
      sent += 1;
      if (sent > 21) expect(held).toBe(0);
      if (sent !== 21) continue;
      // From now on, the list reads one segment after another.
      reader.forgetAhead();
      queried.length = 0;
    }
    expect(sent).toBe(40);
    expect(most).toBe(groupsAhead * 4 - 1);
    listPlace.end();
    expect(places.held).toBe(0);
  },
);

test("a list needs at most 1,000 queries, and a replica that is too old costs it only one more", async () => {
  const stale = openOrderDatabase();
  for (const count of [40, 3]) {
    place(count, BigInt(count) * 100n);
    let sent = 0;
    const see = () => void (sent += 1);
    const primary = d1Of(see);
    const d1 = withReplica(primary, d1Of(see, stale));
    const sizes = { missingWithManifest: 0, shortBytes: 0, groupSegments: 1, groupsAhead: 1 };
    const near = { listReads: "nearest", sizes, memoryBytes: 0 } as const;
    const lists = new OrderLists(queries(), expander, near);
    lists.recordSeen("key", Number.MAX_SAFE_INTEGER); // The snapshot comes from the primary.
    const segments = database.prepare("SELECT count(*) AS n FROM order_segments").get()!["n"];
    expect(await textOf(lists, requestOf(d1))).toBe(listOf(database));
    // One query for each segment; the replica is asked for the snapshot and one segment in vain.
    expect(sent).toBeLessThanOrEqual(Number(segments) + 3);
  }
  stale.close();
  expect(LIST_SIZES.maxQueries * LIST_SIZES.groupSegments).toBe(LIST_SIZES.maxSegments);
});

test.each([
  { replicaMs: 1_500, primaryMs: 3_000, isPrimary: false, takesMs: 1_500 },
  { replicaMs: 9_000, primaryMs: 500, isPrimary: true, takesMs: 1_500 },
  { replicaMs: 60_000, primaryMs: 60_000, isPrimary: null, takesMs: 1_000 + TIMEOUT_MS },
])(
  "of a replica ($replicaMs ms) and the primary database ($primaryMs ms), the first one serves",
  async ({ replicaMs, primaryMs, isPrimary, takesMs }) => {
    vi.useFakeTimers();
    listenTo("warn");
    const slow = (ms: number) => d1Of(() => after(ms));
    const lists = new ListDatabase(queries(), true);
    const d1 = withReplica(slow(primaryMs), slow(replicaMs));
    const reading = lists.snapshot(d1, NEEDS).then(
      ({ servedBy }) => servedBy.isPrimary,
      () => null,
    );
    const startMs = Date.now();
    const ended = reading.then(() => Date.now() - startMs);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await reading).toBe(isPrimary);
    expect(await ended).toBe(takesMs);
    expect(takesMs).toBeLessThanOrEqual(lists.timeoutMs);
  },
);

test("a list that shares its query is as new as the newest change that its key has seen", async () => {
  const stale = openOrderDatabase();
  place(1);
  const options = { listReads: "nearest", sizes: { concurrency: 1 } } as const;
  const lists = new OrderLists(queries(), expander, options);
  const d1 = withReplica(
    d1Of(),
    d1Of(() => undefined, stale),
  );
  await lists.answer(requestOf(d1, [], { admission: Promise.resolve(Infinity) }));
  const other = requestOf(d1, [], { keyId: "other" });
  const answers = await Promise.all([other, requestOf(d1), other].map((one) => lists.answer(one)));
  const newest = versionOf(database);
  expect(answers.map((answer) => answer?.version)).toStrictEqual([
    versionOf(stale),
    newest,
    newest,
  ]);
  stale.close();
});
