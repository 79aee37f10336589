import type { SQLInputValue } from "node:sqlite";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { INT64_MIN } from "../../../src/rules/int64.ts";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import { ListDatabase } from "../../../src/worker/orders/list-database.ts";
import { LIST_SIZES, ListPlaces } from "../../../src/worker/orders/list-stream.ts";
import { type ListRequest, OrderLists } from "../../../src/worker/orders/order-lists.ts";
import { MAX_SHORTHAND_BYTES } from "../../../src/worker/orders/shorthand/letters.ts";
import { listenTo } from "../../support/written-lines.ts";
import { expander } from "./isolates/expander.ts";
import { d1Of, listOf, openOrderDatabase, prepare, versionOf } from "./isolates/order-database.ts";

let database: ReturnType<typeof openOrderDatabase>;
beforeEach(() => void (database = openOrderDatabase()));
afterEach(() => {
  vi.useRealTimers();
  database.close();
});

const TIMEOUT_MS = 10_000;
const SMALL = { missingWithManifest: 1, shortBytes: 1, pieceBytes: 1, pieceOrders: 2 };
const NEEDS = { needsManifest: true, knownVersions: [], segmentVersions: [], maxMissing: 1_000 };

const listsOf = (options: ConstructorParameters<typeof OrderLists>[2] = {}) =>
  new OrderLists(new DatabaseQueries("orders", TIMEOUT_MS), expander, options);
const databaseOf = (isNearest = false) =>
  new ListDatabase(new DatabaseQueries("orders", TIMEOUT_MS), isNearest);
const snapshotOf = (lists: ListDatabase, d1 = d1Of(on())) =>
  lists.snapshot(d1, { ...NEEDS, atLeast: 0 });
const after = (ms: number) => new Promise<void>((resolve) => void setTimeout(resolve, ms));

/** Runs statements on a SQLite database. Calls `see` before each one, with its rows. */
function on(see: See = () => undefined, sqlite = database) {
  return async (sql: string, values: SQLInputValue[]) => {
    const rows = prepare(sqlite, sql).all(...values);
    // The first ids of the segments that a query reads as of a moment.
    const segments = sql.includes("former") ? JSON.parse(values[0] as string) : [];
    await see(
      segments.map(([, first]: [string, string]) => BigInt(first)),
      rows,
    );
    return rows;
  };
}
type See = (segments: bigint[], rows: unknown[]) => unknown;

function requestOf(d1: D1Database, known: string[] | "*" = [], log = vi.fn()): ListRequest {
  const ifNoneMatch = known === "*" ? known : known.map((value) => ({ value, isWeak: false }));
  return {
    database: d1,
    keyId: "key",
    preconditions: { ifMatch: null, ifNoneMatch },
    isHead: false,
    readsEarly: true,
    admission: Promise.resolve(0),
    log,
    waitUntil: (promise) => void promise.catch(() => undefined),
  };
}

const textOf = async (lists: OrderLists, request: ListRequest) =>
  new Response((await lists.answer(request))?.body).text();

function place(count: number, first = 1n): void {
  const insert = database.prepare("INSERT INTO orders (id) VALUES (?)");
  for (let id = first; id < first + BigInt(count); id += 1n) insert.run(id);
}

const segmentCount = () =>
  Number(database.prepare("SELECT count(*) AS n FROM order_segments").get()!["n"]);

test("each request that shares a query receives what it lacks, and If-None-Match: * alone reads one row", async () => {
  place(8);
  const read: number[] = [];
  const d1 = d1Of(on((_, rows) => read.push(rows.length)));
  const lists = listsOf({ sizes: { concurrency: 1 } });
  const known = versionOf(database);
  const requests = ["*" as const, [known], [known], ["invented"]];
  const answers = await Promise.all(requests.map((one) => lists.answer(requestOf(d1, one))));
  const bodies = answers.map((answer) => answer?.body ?? null);
  expect(bodies.slice(0, 3)).toStrictEqual([null, null, null]);
  expect(await new Response(bodies[3]).text()).toBe(listOf(database));
  expect(read).toStrictEqual([1, segmentCount()]);
});

test("a list is refused if it has too many segments", async () => {
  place(8);
  const request = requestOf(d1Of(on()));
  const maxSegments = segmentCount();
  expect(await textOf(listsOf({ sizes: { maxSegments } }), request)).toBe(listOf(database));
  const answer = listsOf({ sizes: { maxSegments: maxSegments - 1 } }).answer(request);
  const headers = { "Retry-After": "3600" };
  await expect(answer).rejects.toMatchObject({ code: "service_unavailable", headers });
  expect(request.log).toHaveBeenCalledExactlyOnceWith("order_list_too_long");
});

test("a list in memory outlives the former states of insertions that changed nothing", async () => {
  const insert = "INSERT INTO orders (id) VALUES (1), (2), (3), (4), (5) ON CONFLICT DO NOTHING";
  database.exec(insert);
  const [lists, request] = [listsOf(), requestOf(d1Of(on()))];
  await lists.answer(request);
  database.exec(insert);
  const before = listOf(database);
  database.exec("DELETE FROM order_changes WHERE sequence < (SELECT sequence FROM order_list)");
  const answer = await lists.answer(request);
  database.exec("UPDATE orders SET quantity = 1");
  await lists.answer(request);
  expect(await new Response(answer?.body).text()).toBe(before);
});

test("segments are read only from a database that knows the manifest's change, even if their versions are the same", async () => {
  place(6);
  database.exec("SAVEPOINT earlier");
  // The second segment becomes empty, so the range of the first segment grows.
  database.exec("DELETE FROM orders WHERE id > 2");
  const { manifest } = await snapshotOf(databaseOf());
  const read = () => databaseOf().segmentsOf(d1Of(on()), manifest!)(manifest!.segments);
  expect([...(await read()).values()]).toStrictEqual(["1pqsni2pqsn"]);
  database.exec("ROLLBACK TO earlier");
  expect(await read()).toStrictEqual(new Map());
  // The restored database assigns the number of that change again, to another version.
  database.exec(
    `INSERT INTO order_changes (sequence, version, was_listed) VALUES (${manifest!.sequence}, 'v', 0)`,
  );
  expect(await read()).toStrictEqual(new Map());
});

test("the longest order in shorthand is as long as the memory for an order", async () => {
  database.exec(
    `INSERT INTO orders (id, pet_id, quantity, ship_date, complete)
     VALUES (${INT64_MIN}, ${INT64_MIN}, ${INT64_MIN}, '9999-12-31T23:59:59.999Z', 0)`,
  );
  const { texts } = await snapshotOf(databaseOf());
  expect([...texts.values()].map(({ length }) => length + 1)).toStrictEqual([MAX_SHORTHAND_BYTES]);
});

test("memory holds as many segments of the newest list as fit, and none of a former one", async () => {
  place(40);
  const lists = listsOf({ memoryBytes: 1_200, sizes: SMALL });
  for (const quantity of [1, 2, 3]) {
    database.exec(`UPDATE orders SET quantity = ${quantity}`);
    await textOf(lists, requestOf(d1Of(on())));
    const missing: bigint[] = [];
    await textOf(lists, requestOf(d1Of(on((segments) => missing.push(...segments)))));
    // A segment takes 256 bytes and its text of up to 36.
    expect(missing).toHaveLength(segmentCount() - 4);
  }
});

test.each([
  { groupsAhead: 1, stalls: false },
  { groupsAhead: 3, stalls: false },
  { groupsAhead: 3, stalls: true },
])(
  "a list above 2^53 begins after one query, counts all that it holds, and reads $groupsAhead groups ahead: nothing twice, unless it stalls ($stalls) and another list needs the room",
  async ({ groupsAhead, stalls }) => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const first = 2n ** 53n;
    place(200, first);
    const places = new ListPlaces({ heldOrders: 1_000, stallMs: 60_000 });
    const methods = { forgetAhead: () => undefined, cutOff: () => undefined };
    const other = { keyId: "other", own: 490, ahead: 0, movedMs: 1e15, ...methods };
    /** The first ids of the segments that were queried. */
    const queried: bigint[] = [];
    let forgotten: bigint[] = [];
    let last = first - 1n;
    let most = 0;
    const held = () => queried.filter((from) => from > last).length;
    const see: See = async (segments) => {
      queried.push(...segments);
      most = Math.max(most, held());
      if (segments.length > 0) await after(2);
    };
    const lists = listsOf({ places, memoryBytes: 0, sizes: { ...SMALL, groupsAhead } });
    const { body } = (await lists.answer(requestOf(d1Of(on(see)))))!;
    let text = "";
    for await (const piece of body as ReadableStream<Uint8Array>) {
      text += new TextDecoder().decode(piece);
      last = BigInt(text.match(/\d+(?=}$)/)?.[0] ?? first + 200n);
      if (last === first) expect(queried).toStrictEqual([]);
      if (stalls && last === first + 9n) {
        vi.setSystemTime(Date.now() + 60_000);
        expect(places.take(other)).toBe(true);
        forgotten = queried.splice(0).filter((from) => from > last);
        expect(forgotten).not.toStrictEqual([]);
      }
      expect(places.held).toBeGreaterThanOrEqual(held() * 2);
      if (forgotten.length > 0 || last === first + 199n)
        expect(places.held).toBeLessThanOrEqual(10 + other.own);
    }
    expect(text).toBe(listOf(database));
    expect(new Set(queried).size).toBe(queried.length);
    expect(queried).toStrictEqual(expect.arrayContaining(forgotten));
    places.end(other);
    expect(places.held).toBe(0);
    if (stalls) return;
    expect(queried).toHaveLength(segmentCount() - 1);
    expect(most).toBe(groupsAhead * 4);
  },
);

test("a list needs at most 1,000 queries, and a replica that is too old costs it only one more", async () => {
  const stale = openOrderDatabase();
  for (const count of [40, 3]) {
    place(count, BigInt(count) * 100n);
    const see = vi.fn();
    const sizes = { missingWithManifest: 0, shortBytes: 0, groupSegments: 1, groupsAhead: 1 };
    const lists = listsOf({ listReads: "nearest", sizes, memoryBytes: 0 });
    lists.recordSeen("key", Number.MAX_SAFE_INTEGER); // The snapshot comes from the primary.
    const d1 = d1Of(on(see), on(see, stale));
    expect(await textOf(lists, requestOf(d1))).toBe(listOf(database));
    // One query for each segment; the replica is asked for the snapshot and one segment in vain.
    expect(see.mock.calls.length).toBeLessThanOrEqual(segmentCount() + 3);
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
    const lists = databaseOf(true);
    const d1 = d1Of(
      on(() => after(primaryMs)),
      on(() => after(replicaMs)),
    );
    const startMs = Date.now();
    const reading = snapshotOf(lists, d1).then(
      ({ servedBy }) => [servedBy.isPrimary, Date.now() - startMs],
      () => [null, Date.now() - startMs],
    );
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await reading).toStrictEqual([isPrimary, takesMs]);
    expect(takesMs).toBeLessThanOrEqual(lists.timeoutMs);
  },
);
