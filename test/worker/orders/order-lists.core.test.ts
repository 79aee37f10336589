import type { SQLInputValue } from "node:sqlite";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import { NearestReads } from "../../../src/worker/db/nearest-reads.ts";
import { pause } from "../../../src/worker/deadline.ts";
import { readSnapshot, segmentReader } from "../../../src/worker/orders/list-database.ts";
import type { ListSizes } from "../../../src/worker/orders/list-sizes.ts";
import { OrderLists } from "../../../src/worker/orders/order-lists.ts";
import { eventLines, events, expectCauses, startListening } from "../../support/written-lines.ts";
import { requestList } from "./isolates/list-request.ts";
import * as store from "./isolates/order-database.ts";

let database: ReturnType<typeof store.openOrderDatabase>;
beforeEach(() => void (database = store.openOrderDatabase()));
afterEach(() => database.close());

const TIMEOUT_MS = 10_000;
const queries = new DatabaseQueries("orders", TIMEOUT_MS);
const listsOf = (sizes: Partial<ListSizes>, isNearest = false) =>
  new OrderLists(new NearestReads(queries, isNearest), sizes);
const primaryReads = new NearestReads(queries, false);
const snapshotOf = (reads = primaryReads, d1 = store.d1Of(on())) => {
  const needs = { knownVersions: [], segmentVersions: [], mayReadReplica: true };
  return readSnapshot(reads, d1, { ...needs, maxMissingBytes: 1e6 });
};

/** Runs queries on a SQLite database, each after `before`. */
const on =
  (before: (sql: string) => unknown = () => undefined, sqlite = database) =>
  async (sql: string, values: SQLInputValue[]) => {
    await before(sql);
    return store.prepare(sqlite, sql).all(...values);
  };

const segmentCount = () =>
  Number(database.prepare("SELECT count(*) AS n FROM order_segments").get()!["n"]);

test.each(["GET", "HEAD"])("a list too long or without room is refused: %s", async (method) => {
  store.placeMany(database, 8);
  const maxSegments = segmentCount();
  const request = (sizes: Partial<ListSizes>) =>
    requestList(listsOf(sizes), store.d1Of(on()), { method });
  const whole = await request({ maxSegments });
  expect(await whole.text()).toBe(method === "HEAD" ? "" : store.listOf(database));
  startListening();
  for (const [sizes, event, message, retryAfter] of [
    [{ maxSegments: maxSegments - 1 }, "order_list_too_long", /more orders than/, "3600"],
    [{ memoryBytes: 0, placeBytes: 1, lineMs: 10 }, "order_lists_too_many", /too many/, "5"],
  ] as const) {
    const headers = { "Retry-After": retryAfter };
    const error = { code: "service_unavailable", message: expect.stringMatching(message), headers };
    await expect(request(sizes)).rejects.toMatchObject(error);
    expect(eventLines().at(-1)).toStrictEqual({ event, requestId: "1", keyId: "key" });
  }
});

test("segments are read only from a database that knows the manifest's change, even if their versions are the same", async () => {
  store.placeMany(database, 6);
  database.exec("SAVEPOINT earlier");
  // The second segment becomes empty, so the range of the first segment grows.
  database.exec("DELETE FROM orders WHERE id > 2");
  const manifest = await snapshotOf();
  const read = () =>
    segmentReader(primaryReads, store.d1Of(on()), manifest, () => {})(manifest.segments);
  const texts = (await read()).values().map((json) => new TextDecoder().decode(json));
  expect([...texts]).toStrictEqual([',{"id":1},{"id":2}']);
  database.exec("ROLLBACK TO earlier");
  await expect(read()).rejects.toMatchObject({ event: "order_list_moved" });
  // The restored database assigns the number of that change again, to another version.
  database.exec(
    `INSERT INTO order_changes (sequence, version, was_listed) VALUES (${manifest.sequence}, 'v', 0)`,
  );
  await expect(read()).rejects.toMatchObject({ event: "order_list_moved" });
});

test("a list needs one query for each segment, and a replica that is too old costs it only one more", async () => {
  store.placeMany(database, 40);
  using stale = store.openOrderDatabase();
  const see = vi.fn();
  const sizes = { bytesWithManifest: 0, shortBytes: 0, groupBytes: 1, groupsAhead: 1 };
  const lists = listsOf({ ...sizes, memoryBytes: 0 }, true);
  // The snapshot comes from the primary.
  const d1 = store.d1Of(on(see), on(see, stale));
  const list = await requestList(lists, d1, { admission: Promise.resolve({}) });
  expect(await list.text()).toBe(store.listOf(database));
  // The replica is asked for the snapshot and one segment in vain.
  expect(see.mock.calls.length).toBeLessThanOrEqual(segmentCount() + 3);
  expect(events()).toEqual([]);
});

test("a request that must not read a replica shares no query with one that may", async () => {
  store.placeMany(database, 2);
  using stale = store.openOrderDatabase();
  const shared = listsOf({ concurrency: 1 }, true);
  const texts: Promise<string>[] = [];
  /** At the beginning of each query, another request arrives. */
  const arrive = async () => {
    await pause(0);
    if (texts.length === 6) return;
    const admission = Promise.resolve({ mayReadReplica: texts.length % 2 === 1 });
    texts.push(requestList(shared, d1, { admission }).then((response) => response.text()));
  };
  const d1 = store.d1Of(on(arrive), on(arrive, stale));
  await arrive();
  for (const [index, text] of texts.entries()) {
    const list = await text;
    if (index % 2 === 0) expect(list).toBe(store.listOf(database));
  }
});

test("of requests that share a query, those receive 304 that have the list", async () => {
  store.placeMany(database, 2);
  const { headers } = await requestList(listsOf({}), store.d1Of(on()));
  const tag = headers.get("ETag")!.slice(1, -1);
  const shared = listsOf({ concurrency: 1 });
  const others: Promise<Response>[] = [];
  /** While the first query runs, two more requests arrive. */
  const arrive = async () => {
    await pause(0);
    if (others.length > 0) return;
    for (const known of [undefined, tag]) others.push(requestList(shared, d1, { tag: known }));
  };
  const d1 = store.d1Of(on(arrive));
  expect((await requestList(shared, d1, { tag })).status).toBe(304);
  expect((await Promise.all(others)).map(({ status }) => status)).toEqual([200, 304]);
});

const LOST = "D1_ERROR: Network connection lost.";

// After how many milliseconds each database answers, or its error; and who serves after how many.
test.each([
  ["the replica, although it is slow, if the primary is slower", 1_500, 3_000, "replica", 1_500],
  ["the primary if a replica is slow", 9_000, 500, "primary", 1_500],
  ["the replica, although it is slow, if the primary fails", 9_500, LOST, "replica", 9_500],
  ["nobody if the primary fails and a replica hangs", 1e9, LOST, LOST, 11_000],
  ["nobody if both hang", 1e9, 1e9, `timed out after ${TIMEOUT_MS} ms`, 11_000],
])("a near read is served by %s", async (_, replica, primary, outcome, afterMs) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  // The primary is asked five times, after the shortest pauses.
  vi.spyOn(Math, "random").mockReturnValue(0);
  startListening();
  const answering = (how: number | string) =>
    on(() => (typeof how === "string" ? Promise.reject(new Error(how)) : pause(how)));
  const startMs = Date.now();
  const d1 = store.d1Of(answering(primary), answering(replica));
  const served = snapshotOf(new NearestReads(queries, true), d1).then(
    ({ servedBy }) => [servedBy.isPrimary ? "primary" : "replica", Date.now() - startMs],
    ({ cause }: Error) => [(cause as Error).message, Date.now() - startMs],
  );
  await vi.advanceTimersByTimeAsync(2 * TIMEOUT_MS);
  expect(await Promise.race([served, Promise.resolve("late")])).toEqual([outcome, afterMs]);
  expect(events()).toEqual(["list_replica_failed"]);
  expectCauses();
});
