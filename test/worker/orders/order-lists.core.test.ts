import type { SQLInputValue } from "node:sqlite";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { INT64_MIN } from "../../../src/rules/int64.ts";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import { ListDatabase } from "../../../src/worker/orders/list-database.ts";
import { LIST_SIZES } from "../../../src/worker/orders/list-stream.ts";
import { type ListRequest, OrderLists } from "../../../src/worker/orders/order-lists.ts";
import { MAX_SHORTHAND_BYTES } from "../../../src/worker/orders/shorthand/letters.ts";
import { listenTo } from "../../support/written-lines.ts";
import { expander } from "./isolates/expander.ts";
import { listRequest } from "./isolates/list-request.ts";
import { d1Of, listOf, openOrderDatabase, prepare, versionOf } from "./isolates/order-database.ts";

let database: ReturnType<typeof openOrderDatabase>;
beforeEach(() => void (database = openOrderDatabase()));
afterEach(() => {
  vi.useRealTimers();
  database.close();
});

const TIMEOUT_MS = 10_000;
const queries = new DatabaseQueries("orders", TIMEOUT_MS);
const listsOf = (options: ConstructorParameters<typeof OrderLists>[2]) =>
  new OrderLists(queries, expander, options);
const textOf = async (lists: OrderLists, request: ListRequest) =>
  new Response((await lists.answer(request))?.body).text();
const snapshotOf = (isNearest: boolean, d1: D1Database) => {
  const needs = {
    needsManifest: true,
    knownVersions: [],
    segmentVersions: [],
    mayReadReplica: true,
  };
  return new ListDatabase(queries, isNearest).snapshot(d1, { ...needs, maxMissing: 1_000 });
};

/** Runs queries on a SQLite database, each after `before`. */
const on =
  (before: (sql: string) => unknown = () => undefined, sqlite = database) =>
  async (sql: string, values: SQLInputValue[]) => {
    await before(sql);
    return prepare(sqlite, sql).all(...values);
  };

function place(count: number): void {
  const insert = database.prepare("INSERT INTO orders (id) VALUES (?)");
  for (let id = 1; id <= count; id += 1) insert.run(id);
}

const segmentCount = () =>
  Number(database.prepare("SELECT count(*) AS n FROM order_segments").get()!["n"]);

test("each request that shares a query receives what it lacks", async () => {
  place(8);
  const lists = listsOf({ sizes: { concurrency: 1 } });
  const { version: known } = versionOf(database);
  const requests = ["*", known, known, "invented"].map((tag) => listRequest(d1Of(on()), tag));
  const texts = await Promise.all(requests.map((request) => textOf(lists, request)));
  expect(texts).toStrictEqual(["", "", "", listOf(database)]);
});

test.each([false, true])(
  "a list is refused if it is too long or finds no room; HEAD: %s",
  async (isHead) => {
    place(8);
    const maxSegments = segmentCount();
    const request = listRequest(d1Of(on()), undefined, { isHead });
    const text = await textOf(listsOf({ sizes: { maxSegments } }), request);
    expect(text).toBe(isHead ? "" : listOf(database));
    for (const [sizes, retryAfter] of [
      [{ maxSegments: maxSegments - 1 }, "3600"],
      [{ heldOrders: 1 }, "5"],
    ] as const) {
      const refused = { code: "service_unavailable", headers: { "Retry-After": retryAfter } };
      await expect(textOf(listsOf({ sizes }), request)).rejects.toMatchObject(refused);
    }
  },
);

test("a short list that changes without becoming longer is another one", async () => {
  place(1);
  const lists = listsOf({});
  for (const quantity of [1, 2]) {
    database.exec(`UPDATE orders SET quantity = ${quantity}`);
    const list = `[{"id":1,"quantity":${quantity}}]`;
    expect(await textOf(lists, listRequest(d1Of(on())))).toBe(list);
  }
});

test("segments are read only from a database that knows the manifest's change, even if their versions are the same", async () => {
  place(6);
  database.exec("SAVEPOINT earlier");
  // The second segment becomes empty, so the range of the first segment grows.
  database.exec("DELETE FROM orders WHERE id > 2");
  const manifest = (await snapshotOf(false, d1Of(on()))).manifest!;
  const read = () =>
    new ListDatabase(queries, false).segmentsOf(d1Of(on()), manifest)(manifest.segments);
  expect([...(await read()).values()]).toStrictEqual(["1pqsni2pqsn"]);
  database.exec("ROLLBACK TO earlier");
  expect(await read()).toStrictEqual(new Map());
  // The restored database assigns the number of that change again, to another version.
  database.exec(
    `INSERT INTO order_changes (sequence, version, was_listed) VALUES (${manifest.sequence}, 'v', 0)`,
  );
  expect(await read()).toStrictEqual(new Map());
});

test("the longest order in shorthand is as long as the memory for an order", async () => {
  database.exec(
    `INSERT INTO orders (id, pet_id, quantity, ship_date, complete)
     VALUES (${INT64_MIN}, ${INT64_MIN}, ${INT64_MIN}, '9999-12-31T23:59:59.999Z', 0)`,
  );
  const { texts } = await snapshotOf(false, d1Of(on()));
  expect([...texts.values()].map(({ length }) => length + 1)).toStrictEqual([MAX_SHORTHAND_BYTES]);
});

test("memory holds as many segments of the newest list as fit, and none of a former one", async () => {
  place(40);
  const sizes = { missingWithManifest: 1, shortBytes: 1, groupSegments: 1 };
  const lists = listsOf({ memoryBytes: 1_200, sizes });
  for (const quantity of [1, 2, 3]) {
    database.exec(`UPDATE orders SET quantity = ${quantity}`);
    await textOf(lists, listRequest(d1Of(on())));
    const see = vi.fn();
    await textOf(lists, listRequest(d1Of(on(see))));
    // A segment takes 256 bytes and its text of up to 36. One query reads the manifest.
    expect(see).toHaveBeenCalledTimes(1 + segmentCount() - 4);
  }
});

test("a list needs at most 1,000 queries, and a replica that is too old costs it only one more", async () => {
  place(40);
  const stale = openOrderDatabase();
  const see = vi.fn();
  const sizes = { missingWithManifest: 0, shortBytes: 0, groupSegments: 1, groupsAhead: 1 };
  const lists = listsOf({ listReads: "nearest", sizes, memoryBytes: 0 });
  const request = listRequest(d1Of(on(see), on(see, stale)), undefined, {
    admission: Promise.resolve({}), // The snapshot comes from the primary.
  });
  expect(await textOf(lists, request)).toBe(listOf(database));
  // One query for each segment; the replica is asked for the snapshot and one segment in vain.
  expect(see.mock.calls.length).toBeLessThanOrEqual(segmentCount() + 3);
  stale.close();
  expect(LIST_SIZES.maxQueries * LIST_SIZES.groupSegments).toBe(LIST_SIZES.maxSegments);
});

test("a request that must not read a replica never shares the query of one that may", async () => {
  place(1);
  let release = (): void => undefined;
  const held = () => new Promise<void>((resolve) => void (release = resolve));
  const d1 = d1Of(on(), on(held, openOrderDatabase()));
  const lists = listsOf({ listReads: "nearest", sizes: { concurrency: 1 } });
  const read = (mayReadReplica: boolean) =>
    textOf(lists, listRequest(d1, undefined, { admission: Promise.resolve({ mayReadReplica }) }));
  const idle = () => new Promise((resolve) => void setImmediate(resolve));
  const [first] = [read(false), read(true)];
  release();
  await idle();
  // While the second request's query is under way, the first one waits again, now with a third.
  void read(true);
  release();
  await idle();
  release();
  expect(await first).toBe(listOf(database));
});

test.each([
  ["a replica serves although it is slow, if the primary is slower", 1_500, 3_000, false],
  ["the primary serves if a replica is slow", 9_000, 500, true],
])("%s: both within a second and a half", async (_, replicaMs, primaryMs, isPrimary) => {
  vi.useFakeTimers();
  listenTo("warn");
  const answerAfter = (ms: number) =>
    on(() => new Promise<void>((resolve) => void setTimeout(resolve, ms)));
  const reading = snapshotOf(true, d1Of(answerAfter(primaryMs), answerAfter(replicaMs)));
  const timeout = new Promise<null>((resolve) => void setTimeout(() => resolve(null), 1_501));
  const first = Promise.race([reading, timeout]);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(await first).toMatchObject({ servedBy: { isPrimary } });
});
