import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import {
  listReads,
  type Operations,
  OPERATION_NAMES,
  OPERATIONS,
  sumOperations,
} from "./operations.ts";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, DAY_MS, HOUR_MS, MINUTE_MS, stopClock } from "../../support/clock.ts";
import { cutIntoSegments, placeManyOrders } from "../../support/order-fixture.ts";
import { CountedService } from "./counted-service.ts";

const ORDERS = 20;

const sum = (...parts: Partial<Operations>[]) =>
  sumOperations(parts.map((part) => [{ ...OPERATIONS.repeatedRefusal, ...part }, 1]));

/** Starts an isolate that remembers a key and the list. */
async function warmService({ perMinute = 1_000, vars = {} } = {}) {
  const { key, id } = await createEnterpriseKey(perMinute, 1_000);
  await placeManyOrders(ORDERS);
  const service = new CountedService({ key }, vars);
  const { etag } = await service.send();
  await service.watchObject(`key:${id}`);
  await service.send();
  return { service, etag, id };
}

const cancel = (path: string) => ({ method: "DELETE", path });

test.for([{}, { LIST_READS: "nearest" }])(
  "an unchanged list, and cancellations with and without effect, with %j",
  async (vars) => {
    const near = "LIST_READS" in vars ? OPERATIONS.nearCancellation : {};
    const { service, etag } = await warmService({ vars });
    for (const headers of [{}, { "If-None-Match": etag }]) {
      expect(await service.operationsOf({ headers })).toEqual(OPERATIONS.unchangedList);
    }
    expect(await service.operationsOf(cancel("/7"))).toEqual(sum(OPERATIONS.cancellation, near));
    const vain = sum(OPERATIONS.vainCancellation, near);
    expect(await service.operationsOf(cancel("/7"))).toEqual(vain);
    await env.ORDERS.exec("UPDATE orders SET status = 'shipped' WHERE id = 8");
    const { rowsRead } = vain;
    const shipped = { ...OPERATIONS.vainCancellation, rowsRead };
    expect(await service.operationsOf(cancel("/8"))).toEqual(shipped);
  },
);

test("32 simultaneous lists with one key", async () => {
  const { service } = await warmService();
  const lists = Array.from({ length: 32 }, () => ({}));
  const rounds: Operations[] = [];
  for (let round = 0; round < 4; round += 1) rounds.push(await service.operationsOf(...lists));
  const most = sumOperations([[OPERATIONS.groupedList, lists.length]]);
  for (const name of OPERATION_NAMES) {
    // On a busy machine fewer requests share a write, so the smallest count of the rounds is used.
    const least = Math.min(...rounds.map((operations) => operations[name]));
    expect(least, name).toBeLessThanOrEqual(most[name]);
  }
});

test.for([
  "INSERT INTO orders (id) VALUES (0)",
  "UPDATE orders SET status = 'shipped' WHERE id = 7",
])("a change of an order: %s", async (sql) => {
  await placeManyOrders(ORDERS);
  const { meta } = await env.ORDERS.prepare(sql).run();
  expect(OPERATIONS.orderChange.rowsWritten).toBe(meta.rows_written);
  expect(OPERATIONS.orderChange.rowsRead).toBeGreaterThanOrEqual(meta.rows_read);
});

test("a key that the isolate does not remember", async () => {
  const { service } = await warmService();
  service.forget();
  const { vainCancellation, keyLookUp } = OPERATIONS;
  expect(await service.operationsOf(cancel("/none"))).toEqual(
    sum(vainCancellation, keyLookUp, { queries: -1, rowsRead: -vainCancellation.rowsRead }),
  );
});

test("a refusal by the Durable Object, and a refusal from the isolate's memory", async () => {
  const { service } = await warmService({ perMinute: 2 });
  expect(await service.operationsOf({})).toEqual(OPERATIONS.refusal);
  expect(await service.operationsOf({})).toEqual(OPERATIONS.repeatedRefusal);
});

test("requests without a valid key: at most one look-up, which writes nothing", async () => {
  const { key: revoked } = await createApiKey({ revokedAt: new Date() });
  const keys = ["malformed", revoked, generateSecret()].map((key) => ({ key }));
  for (const sender of [{}, ...keys]) {
    const service = new CountedService(sender);
    const { queries, rowsRead, ...others } = await service.operationsOf({});
    expect(others).toEqual({ objectCalls: 0, objectRowsWritten: 0, rowsWritten: 0 });
    expect(queries).toBeLessThanOrEqual(OPERATIONS.keyLookUp.queries);
    expect(rowsRead).toBeLessThanOrEqual(OPERATIONS.keyLookUp.rowsRead);
    expect(await service.operationsOf({})).toEqual(OPERATIONS.unauthorized);
  }
});

test("a Durable Object that reports its usage and later deletes its storage", async () => {
  const startMs = stopClock();
  advanceClock(Math.ceil(startMs / DAY_MS) * DAY_MS + 12 * HOUR_MS - startMs);
  const { key, id } = await createApiKey();
  const service = new CountedService({ key });
  await service.send();
  const name = `key:${id}`;
  await service.watchObject(name);

  advanceClock(HOUR_MS);
  expect(await service.operationsOfAlarm(name)).toEqual(OPERATIONS.usageReport);
  advanceClock(MINUTE_MS);
  expect(await service.operationsOf(cancel("/none"))).toMatchObject({ objectRowsWritten: 1 });

  advanceClock(HOUR_MS);
  await service.operationsOfAlarm(name);
  advanceClock(DAY_MS);
  expect(await service.operationsOfAlarm(name)).toEqual(OPERATIONS.objectEnd);
});

/** Creates a store with small segments, and an isolate that remembers the key but no segments. */
async function coldService(segments: number, ordersPerSegment: number) {
  await placeManyOrders(segments * ordersPerSegment);
  await cutIntoSegments(ordersPerSegment);
  const { key, id } = await createEnterpriseKey(1_000, 1_000);
  const service = new CountedService({ key });
  await service.send({ method: "DELETE", path: "/none" });
  await service.watchObject(`key:${id}`);
  return service;
}

/** Expects the estimate of `listReads`. Only the rows read may be up to 15 % below it. */
function expectList(counted: Operations, reads: Parameters<typeof listReads>[0]): void {
  const { rowsRead, ...table } = sum(OPERATIONS.unchangedList, listReads(reads));
  expect(counted).toMatchObject(table);
  expect(counted.rowsRead).toBeLessThanOrEqual(rowsRead);
  expect(counted.rowsRead).toBeGreaterThanOrEqual(0.85 * rowsRead);
}

test.for([16, 40])("lists with %d segments", async (segments) => {
  const ordersPerSegment = 200;
  const service = await coldService(segments, ordersPerSegment);
  const all = { segments, segmentsRead: segments, ordersPerSegment };
  expectList(await service.operationsOf({}), all);

  await env.ORDERS.exec("UPDATE orders SET quantity = 77 WHERE id = 3107");
  expectList(await service.operationsOf({}), { ...all, segmentsRead: 1 });

  service.forget();
  await service.send({ method: "DELETE", path: "/none" });
  expectList(await service.operationsOf({}), all);
});
