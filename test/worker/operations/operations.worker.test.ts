import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import { ListDatabase } from "../../../src/worker/orders/list-database.ts";
import { LIST_SIZES } from "../../../src/worker/orders/list-memory.ts";
import { createApiKey, createEnterpriseKey, rotate } from "../../support/api-key-fixture.ts";
import { advanceClock, DAY_MS, HOUR_MS, stopClock } from "../../support/clock.ts";
import { limiterNamed } from "../../support/limiter.ts";
import { cutIntoSegments, placeManyOrders } from "../../support/order-fixture.ts";
import { observedBindings } from "../../support/observed-bindings.ts";
import { LIST, type RequestOptions, settle, startService } from "../../support/service.ts";

/** The operations that Cloudflare bills, or that keep the D1 database busy. */
const NONE = {
  /** Calls to Durable Objects, alarms included. */
  objectCalls: 0,
  /** Writes and deletions in the storage of Durable Objects, and alarms set. */
  objectRowsWritten: 0,
  /** D1 queries. A batch is one query. */
  queries: 0,
  rowsRead: 0,
  rowsWritten: 0,
};

const counted = { ...NONE };
const BINDINGS = observedBindings(env, {
  beforeObjectCall: () => void (counted.objectCalls += 1),
  beforeQuery: () => void (counted.queries += 1),
  afterStatement: (meta) => {
    counted.rowsRead += meta.rows_read;
    counted.rowsWritten += meta.rows_written;
  },
});

/** Returns the operations of some work, and of the background work after it. */
async function operationsOf(...work: Promise<unknown>[]): Promise<typeof NONE> {
  await Promise.all(work);
  await settle();
  const operations = { ...counted };
  Object.assign(counted, NONE);
  return operations;
}

/** Starts an isolate. Returns a function that sends a request, and reads the whole response. */
function startIsolate(sender: RequestOptions, vars: Record<string, string> = {}) {
  const isolate = startService(vars, BINDINGS);
  return async (options: RequestOptions = {}, path = LIST) => {
    const response = await isolate(path, { ...sender, ...options });
    await response.arrayBuffer();
    return response.headers.get("ETag") ?? "";
  };
}

/** From now on, also counts the writes and queries of the key's Durable Object. */
async function watchObject(keyId: string): Promise<void> {
  await runInDurableObject(limiterNamed(`key:${keyId}`), (object, { storage }) => {
    const watch = (target: any, name: string) => {
      const method = target[name].bind(target);
      target[name] = (...args: unknown[]) => {
        counted.objectRowsWritten += 1;
        return method(...args);
      };
    };
    for (const method of ["put", "delete"]) watch(storage.kv, method);
    for (const method of ["setAlarm", "deleteAll"]) watch(storage, method);
    Object.assign(object, { env: { ...env, KEYS: BINDINGS.KEYS } });
  });
}

/** Starts an isolate that remembers a key and the list. */
async function warmIsolate({ perMinute = 1_000, vars = {}, orders = 20, perSegment = 20 } = {}) {
  const { key, id } = await createEnterpriseKey(perMinute, 1_000);
  await placeManyOrders(orders);
  await cutIntoSegments(perSegment);
  const request = startIsolate({ key }, vars);
  const etag = await request();
  await watchObject(id);
  await operationsOf(request());
  return { request, etag, key, id };
}

const ADMISSION = { ...NONE, objectCalls: 1, objectRowsWritten: 1 };
/** A list that is answered with 304, or from the isolate's memory. */
const UNCHANGED_LIST = { ...ADMISSION, queries: 1, rowsRead: 1 };
const CANCEL = { method: "DELETE" };
const NO_ORDER = `${LIST}/none`;

test.for([{}, { LIST_READS: "nearest" }])(
  "an unchanged list, and cancellations with and without effect, with %j",
  async (vars) => {
    const near = "LIST_READS" in vars ? 1 : 0;
    const { request, etag } = await warmIsolate({ vars });
    expect(await operationsOf(request())).toEqual(UNCHANGED_LIST);
    const headers = { "If-None-Match": etag };
    expect(await operationsOf(request({ headers }))).toEqual(UNCHANGED_LIST);
    const recorded = { objectCalls: 1 + near, objectRowsWritten: 1 + near, queries: 1 };
    const done = { ...recorded, rowsRead: 12 + near, rowsWritten: 5 };
    expect(await operationsOf(request(CANCEL, `${LIST}/7`))).toEqual(done);
    const vain = { ...recorded, rowsRead: 4 + near, rowsWritten: 0 };
    expect(await operationsOf(request(CANCEL, `${LIST}/7`))).toEqual(vain);
    await env.ORDERS.exec("UPDATE orders SET status = 'shipped' WHERE id = 8");
    const shipped = { ...ADMISSION, queries: 1, rowsRead: 4 + near };
    expect(await operationsOf(request(CANCEL, `${LIST}/8`))).toEqual(shipped);
    expect(await operationsOf(request(CANCEL, NO_ORDER))).toEqual(ADMISSION);
  },
);

test("32 simultaneous lists with one key share writes of the key's object", async () => {
  const { request } = await warmIsolate();
  const written: number[] = [];
  for (let round = 0; round < 4; round += 1) {
    const lists = Array.from({ length: 32 }, () => request());
    const { objectRowsWritten, ...others } = await operationsOf(...lists);
    for (const count of Object.values(others)) expect(count).toBeLessThanOrEqual(32);
    written.push(objectRowsWritten);
  }
  // On a busy machine fewer requests share a write, so the smallest count of the rounds is used.
  expect(Math.min(...written)).toBeLessThanOrEqual(16);
});

test("a key that the isolate does not remember, and requests without a valid key, look up at most once and write nothing", async () => {
  const { key, id } = await warmIsolate();
  const own = await rotate(id, HOUR_MS);
  for (let n = 0; n < 5; n++) await rotate((await createApiKey()).id, HOUR_MS);
  const { key: revoked } = await createApiKey({ revokedAt: new Date() });
  // In each half of the look-up's UNION, D1 also counts one row for the wanted hash.
  for (const [sent, queries, rowsRead, admission] of [
    [own, 1, 3, ADMISSION],
    [key, 1, 4, ADMISSION],
    [revoked, 1, 3, NONE],
    [generateSecret(), 1, 2, NONE],
    ["malformed", 0, 0, NONE],
    ["", 0, 0, NONE],
  ] as const) {
    const request = startIsolate(sent === "" ? {} : { key: sent });
    const lookUp = { ...admission, queries, rowsRead };
    expect(await operationsOf(request(CANCEL, NO_ORDER)), sent).toEqual(lookUp);
    expect(await operationsOf(request(CANCEL, NO_ORDER)), sent).toEqual(admission);
  }
});

test("a refusal by the Durable Object, and a refusal from the isolate's memory", async () => {
  const { request } = await warmIsolate({ perMinute: 2 });
  // The isolate has already begun to read the list.
  expect(await operationsOf(request())).toEqual({ ...UNCHANGED_LIST, objectRowsWritten: 0 });
  expect(await operationsOf(request())).toEqual(NONE);
});

test("an alarm that reports usage writes one row, and none if nothing has changed", async () => {
  const startMs = stopClock();
  advanceClock(Math.ceil(startMs / DAY_MS) * DAY_MS + 12 * HOUR_MS - startMs);
  const { id } = await warmIsolate();
  for (const [waitMs, rowsWritten] of [
    [HOUR_MS, 1],
    [DAY_MS, 0],
  ] as const) {
    advanceClock(waitMs);
    const alarm = runDurableObjectAlarm(limiterNamed(`key:${id}`));
    const report = { ...NONE, objectRowsWritten: 1, queries: 1, rowsWritten };
    expect(await operationsOf(alarm)).toEqual(report);
    expect(await alarm).toBe(true);
  }
});

test.for([16, 40])("a list of %d segments reads those that memory lacks", async (segments) => {
  const perSegment = 200;
  const { request, key } = await warmIsolate({ orders: segments * perSegment, perSegment });
  const expectReads = async (list: Promise<unknown>, missing: number) => {
    const { rowsRead, ...others } = await operationsOf(list);
    const later = missing <= LIST_SIZES.missingWithManifest ? 0 : missing - 1;
    const queries = 1 + Math.ceil(later / LIST_SIZES.groupSegments);
    expect({ ...others, rowsRead: 0 }).toEqual({ ...ADMISSION, queries });
    // Three rows for each segment in the manifest, and again for each segment that is read.
    const most = 1 + segments * 3 + missing * (perSegment + 3);
    expect(rowsRead).toBeLessThanOrEqual(most);
    expect(rowsRead).toBeGreaterThanOrEqual(0.85 * most);
  };
  await env.ORDERS.exec("UPDATE orders SET quantity = 77 WHERE id = 3107");
  await expectReads(request(), 1);
  const another = startIsolate({ key });
  await operationsOf(another(CANCEL, NO_ORDER));
  await expectReads(another(), segments);
});

test("a group of a list that has begun reads one row at most for each change outside its range of ids", async () => {
  await placeManyOrders(1_000);
  await cutIntoSegments(200);
  const lists = new ListDatabase(new DatabaseQueries("orders", 10_000), false);
  const needs = { needsManifest: true, knownVersions: [], segmentVersions: [], atLeast: 0 };
  const { manifest } = await lists.snapshot(BINDINGS.ORDERS, { ...needs, maxMissing: 0 });
  const readGroup = lists.segmentsOf(BINDINGS.ORDERS, manifest!);
  await operationsOf();
  const rowsOfGroup = async () =>
    (await operationsOf(readGroup(manifest!.segments.slice(1, 2)))).rowsRead;
  await env.ORDERS.exec("UPDATE orders SET quantity = 1 WHERE id = 250");
  const before = await rowsOfGroup();
  await env.ORDERS.exec("UPDATE orders SET quantity = 1 WHERE id NOT BETWEEN 201 AND 400");
  expect((await rowsOfGroup()) - before).toBeLessThanOrEqual(800);
});
