import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import { ListDatabase } from "../../../src/worker/orders/list-database.ts";
import { LIST_SIZES } from "../../../src/worker/orders/list-stream.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, DAY_MS, HOUR_MS, stopClock } from "../../support/clock.ts";
import { cutIntoSegments, placeManyOrders } from "../../support/order-fixture.ts";
import { observedBindings } from "../../support/observed-bindings.ts";
import { CountedService, NO_OPERATIONS, type Operations } from "./counted-service.ts";

const of = (operations: Partial<Operations>) => ({ ...NO_OPERATIONS, ...operations });
const ADMISSION = { objectCalls: 1, objectRowsWritten: 1 };
/** A list that is answered with 304, or from the isolate's memory. */
const UNCHANGED_LIST = of({ ...ADMISSION, queries: 1, rowsRead: 1 });

/** Starts an isolate that remembers a key and the list. */
async function warmService({ perMinute = 1_000, vars = {}, orders = 20, perSegment = 20 } = {}) {
  const { key, id } = await createEnterpriseKey(perMinute, 1_000);
  await placeManyOrders(orders);
  await cutIntoSegments(perSegment);
  const service = new CountedService({ key }, vars);
  const { etag } = await service.send();
  await service.watchObject(`key:${id}`);
  await service.send();
  return { service, etag };
}

const cancel = (path: string) => ({ method: "DELETE", path });

test.for([{}, { LIST_READS: "nearest" }])(
  "an unchanged list, and cancellations with and without effect, with %j",
  async (vars) => {
    const near = "LIST_READS" in vars ? 1 : 0;
    const { service, etag } = await warmService({ vars });
    for (const headers of [{}, { "If-None-Match": etag }]) {
      expect(await service.operationsOf({ headers })).toEqual(UNCHANGED_LIST);
    }
    const recorded = { objectCalls: 1 + near, objectRowsWritten: 1 + near, queries: 1 };
    const done = of({ ...recorded, rowsRead: 12 + near, rowsWritten: 5 });
    expect(await service.operationsOf(cancel("/7"))).toEqual(done);
    const vain = of({ ...recorded, rowsRead: 4 + near });
    expect(await service.operationsOf(cancel("/7"))).toEqual(vain);
    await env.ORDERS.exec("UPDATE orders SET status = 'shipped' WHERE id = 8");
    expect(await service.operationsOf(cancel("/8"))).toEqual({ ...vain, ...ADMISSION });
    expect(await service.operationsOf(cancel("/none"))).toEqual(of(ADMISSION));
  },
);

test("32 simultaneous lists with one key share writes of the key's object", async () => {
  const { service } = await warmService();
  const lists = Array.from({ length: 32 }, () => ({}));
  const written: number[] = [];
  for (let round = 0; round < 4; round += 1) {
    const { objectRowsWritten, ...others } = await service.operationsOf(...lists);
    for (const count of Object.values(others)) expect(count).toBeLessThanOrEqual(32);
    written.push(objectRowsWritten);
  }
  // On a busy machine fewer requests share a write, so the smallest count of the rounds is used.
  expect(Math.min(...written)).toBeLessThanOrEqual(16);
});

test.for([
  "INSERT INTO orders (id) VALUES (0)",
  "UPDATE orders SET status = 'shipped' WHERE id = 7",
])("a change of an order: %s", async (sql) => {
  await placeManyOrders(20);
  const { meta } = await env.ORDERS.prepare(sql).run();
  expect(meta.rows_written).toBe(4);
  expect(meta.rows_read).toBeLessThanOrEqual(11);
});

test("a key that the isolate does not remember, and requests without a valid key, look up at most once and write nothing", async () => {
  const { service } = await warmService();
  service.forget();
  const lookUp = { queries: 1, rowsRead: 3 };
  expect(await service.operationsOf(cancel("/none"))).toEqual(of({ ...ADMISSION, ...lookUp }));
  const { key: revoked } = await createApiKey({ revokedAt: new Date() });
  for (const key of ["", "malformed", revoked, generateSecret()]) {
    const sender = new CountedService(key === "" ? {} : { key });
    const { queries, rowsRead, ...others } = await sender.operationsOf({});
    expect(of(others)).toEqual(NO_OPERATIONS);
    expect(queries).toBeLessThanOrEqual(lookUp.queries);
    expect(rowsRead).toBeLessThanOrEqual(lookUp.rowsRead);
    expect(await sender.operationsOf({})).toEqual(NO_OPERATIONS);
  }
});

test("a refusal by the Durable Object, and a refusal from the isolate's memory", async () => {
  const { service } = await warmService({ perMinute: 2 });
  // The isolate has already begun to read the list.
  expect(await service.operationsOf({})).toEqual(of({ objectCalls: 1, queries: 1, rowsRead: 1 }));
  expect(await service.operationsOf({})).toEqual(NO_OPERATIONS);
});

test("a Durable Object that reports its usage and later deletes its storage", async () => {
  const startMs = stopClock();
  advanceClock(Math.ceil(startMs / DAY_MS) * DAY_MS + 12 * HOUR_MS - startMs);
  const { key, id } = await createApiKey();
  const service = new CountedService({ key });
  await service.send();
  await service.watchObject(`key:${id}`);
  advanceClock(HOUR_MS);
  const report = of({ ...ADMISSION, queries: 1, rowsWritten: 1 });
  expect(await service.operationsOfAlarm(`key:${id}`)).toEqual(report);
  expect(await service.operationsOf(cancel("/none"))).toMatchObject({ objectRowsWritten: 1 });
  advanceClock(HOUR_MS);
  await service.operationsOfAlarm(`key:${id}`);
  advanceClock(DAY_MS);
  expect(await service.operationsOfAlarm(`key:${id}`)).toEqual(of({ ...ADMISSION, queries: 1 }));
});

test.for([16, 40])("a list of %d segments reads those that memory lacks", async (segments) => {
  const perSegment = 200;
  const { service } = await warmService({ orders: segments * perSegment, perSegment });
  const expectReads = async (missing: number) => {
    const { rowsRead, ...others } = await service.operationsOf({});
    const later = missing <= LIST_SIZES.missingWithManifest ? 0 : missing - 1;
    const queries = 1 + Math.ceil(later / LIST_SIZES.groupSegments);
    expect(others).toEqual({ ...ADMISSION, queries, rowsWritten: 0 });
    // Three rows for each segment in the manifest, and again for each segment that is read.
    const most = 1 + segments * 3 + missing * (perSegment + 3);
    expect(rowsRead).toBeLessThanOrEqual(most);
    expect(rowsRead).toBeGreaterThanOrEqual(0.85 * most);
  };
  await env.ORDERS.exec("UPDATE orders SET quantity = 77 WHERE id = 3107");
  await expectReads(1);
  service.forget();
  await service.send(cancel("/none"));
  await expectReads(segments);
});

test("a group of a list that has begun reads one row at most for each change outside its range of ids", async () => {
  await placeManyOrders(1_000);
  await cutIntoSegments(200);
  let rowsRead = 0;
  const { ORDERS } = observedBindings(env, {
    beforeObjectCall: () => undefined,
    beforeQuery: () => undefined,
    afterStatement: (meta) => void (rowsRead = meta.rows_read),
  });
  const lists = new ListDatabase(new DatabaseQueries("orders", 10_000), false);
  const needs = { needsManifest: true, knownVersions: [], segmentVersions: [], atLeast: 0 };
  const { manifest } = await lists.snapshot(ORDERS, { ...needs, maxMissing: 0 });
  const readGroup = lists.segmentsOf(ORDERS, manifest!);
  const rowsOfGroup = async () => {
    await readGroup(manifest!.segments.slice(1, 2));
    return rowsRead;
  };
  await env.ORDERS.exec("UPDATE orders SET quantity = 1 WHERE id = 250");
  const before = await rowsOfGroup();
  await env.ORDERS.exec("UPDATE orders SET quantity = 1 WHERE id NOT BETWEEN 201 AND 400");
  expect((await rowsOfGroup()) - before).toBeLessThanOrEqual(800);
});
