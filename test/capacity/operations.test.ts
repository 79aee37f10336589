import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import {
  LIST_PAGE_ORDERS,
  OBJECT_BYTES,
  type Operations,
  OPERATIONS,
  totalOperations,
} from "../../src/cli/capacity/operations.ts";
import { PAGE_ORDERS } from "../../src/orders/order-pages.ts";
import { createApiKey, createEnterpriseKey } from "../fixtures/api-key-fixture.ts";
import { advanceClock, stopClock } from "../fixtures/clock.ts";
import { limiterNamed } from "../fixtures/limiter.ts";
import { placeManyOrders, placeOrder } from "../fixtures/order-fixture.ts";
import { CountedService } from "./counted-service.ts";

const ADDRESS = "192.0.2.1";
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const {
  admission,
  refusal,
  listVersion,
  listPage,
  cancellation,
  vainCancellation,
  placement,
  keyLookUp,
  failedAuthentication,
  usageReport,
  objectEnd,
} = OPERATIONS;

const sum = (...parts: Operations[]) => totalOperations(parts.map((part) => [part, 1]));
const rowsRead = (count: number) => totalOperations([[{ ...sum(), rowsRead: 1 }, count]]);

/** A service that has met the key and its list before, with orders from 1 on. */
async function warmService({ orders = 20, perMinute = 1_000 } = {}) {
  const { key, id } = await createEnterpriseKey(perMinute, 1_000);
  await placeManyOrders(orders);
  const service = new CountedService({ key, address: ADDRESS });
  const { etag } = await service.send();
  await service.watchObject(`key:${id}`);
  await service.send();
  return { service, etag, id };
}

describe("a list", () => {
  test("of one page, that is kept", async () => {
    const { service } = await warmService();
    expect(await service.operationsOf(() => service.send())).toEqual(sum(admission, listVersion));
  });

  test("that the client has", async () => {
    const { service, etag } = await warmService();
    const send = () => service.send({ headers: { "If-None-Match": etag } });
    expect(await service.operationsOf(send)).toEqual(sum(admission, listVersion));
  });

  test("of one page, that has changed", async () => {
    const { service } = await warmService();
    await placeOrder(21n);
    const changed = await service.operationsOf(() => service.send());
    // The version that the isolate still knows is a row that the query reads.
    expect(changed).toEqual(sum(admission, listVersion, listPage, rowsRead(21), rowsRead(1)));
  });

  test("of two pages is read once for the answer and once for the cache", async () => {
    expect(LIST_PAGE_ORDERS).toBe(PAGE_ORDERS);
    const orders = PAGE_ORDERS + 100;
    const { key } = await createEnterpriseKey(1_000, 1_000);
    await placeManyOrders(orders);
    const service = new CountedService({ key, address: ADDRESS });
    await service.send({ method: "DELETE", path: "/none" });
    const operations = await service.operationsOf(() => service.send());
    const pages = [listPage, listPage, rowsRead(orders)];
    const { objectCalls } = admission;
    expect(operations).toEqual({ ...sum(...pages, ...pages), objectCalls });
  });
});

describe("a cancellation", () => {
  test("of a pending order", async () => {
    const { service } = await warmService();
    const send = () => service.send({ method: "DELETE", path: "/7" });
    expect(await service.operationsOf(send)).toEqual(sum(admission, cancellation));
  });

  test.for(["/7", "/999"])("in vain: %s", async (path) => {
    const { service } = await warmService();
    await env.DB.exec("UPDATE orders SET status = 'shipped' WHERE id = 7");
    const send = () => service.send({ method: "DELETE", path });
    expect(await service.operationsOf(send)).toEqual(sum(admission, vainCancellation));
  });
});

test("an order that is placed", async () => {
  const { meta } = await env.DB.prepare("INSERT INTO orders (id) VALUES (1)").run();
  expect({ rowsRead: meta.rows_read, rowsWritten: meta.rows_written }).toEqual({
    rowsRead: placement.rowsRead,
    rowsWritten: placement.rowsWritten,
  });
});

test("a key that is looked up", async () => {
  const { service } = await warmService();
  const send = () => service.send({ method: "DELETE", path: "/none" });
  const known = await service.operationsOf(send);
  service.forget();
  expect(await service.operationsOf(send)).toEqual(sum(known, keyLookUp));
});

test("a refusal by the object, for which a list has been begun, and one from memory", async () => {
  const { service } = await warmService({ perMinute: 2 });
  const send = () => service.send();
  expect(await service.operationsOf(send)).toEqual(sum(refusal, listVersion));
  expect(await service.operationsOf(send)).toEqual(sum());
});

test("a request without a key", async () => {
  const service = new CountedService({ address: ADDRESS });
  await service.send();
  expect(await service.operationsOf(() => service.send())).toEqual(failedAuthentication);
});

describe("the object of a key", () => {
  test("reports what was used, and ends when it is used no more", async () => {
    const startMs = stopClock();
    advanceClock(Math.ceil(startMs / DAY_MS) * DAY_MS + 12 * HOUR_MS - startMs);
    const { key, id } = await createApiKey();
    const service = new CountedService({ key, address: ADDRESS });
    await service.send();
    const name = `key:${id}`;
    await service.watchObject(name);
    const alarm = () => service.alarm(name);

    advanceClock(HOUR_MS);
    const reported = await service.operationsOf(alarm);
    advanceClock(MINUTE_MS);
    const send = () => service.send({ method: "DELETE", path: "/none" });
    const admitted = await service.operationsOf(send);
    // The key is looked up again, and its next report is due earlier than the object's end.
    const alarmSet = { ...sum(), objectRowsWritten: 1 };
    expect(admitted).toEqual(sum(admission, keyLookUp, alarmSet));
    expect(sum(reported, alarmSet)).toEqual(usageReport);

    advanceClock(HOUR_MS);
    await alarm();
    advanceClock(DAY_MS);
    expect(await service.operationsOf(alarm)).toEqual(objectEnd);
  });

  test("takes so much on disk", async () => {
    const { id } = await warmService();
    const size = await runInDurableObject(
      limiterNamed(`key:${id}`),
      (_, { storage }) => storage.sql.databaseSize,
    );
    expect(size).toBe(OBJECT_BYTES);
  });
});
