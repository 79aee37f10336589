import { beforeEach, describe, expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { cutIntoSegments, placeManyOrders, storedOrder } from "../../support/order-fixture.ts";
import { LIST, type Send, startService } from "../../support/service.ts";
import {
  fail,
  faultyDatabases,
  HANG,
  LOST,
  loseTheAnswer,
  PASS,
  stopDeadlines,
} from "../../support/faults.ts";
import { eventLines, events, requestLines } from "../../support/written-lines.ts";

const ORDER = `${LIST}/7`;
const ORDERS = 40;
const BUSY = fail("D1_ERROR: database is locked: SQLITE_BUSY");
/** An error that a local D1 may report instead of `SQLITE_BUSY`. */
const HIDDEN = fail("D1_ERROR: internal error; reference = 1");
const FAULTS = [
  ["fail", LOST],
  ["hang", HANG],
] as const;

/** The timeout of queries. `stopDeadlines` finds their timers by this unusual length. */
const TIMEOUT_MS = 29_998;

let expire: () => void;
let line: ReturnType<typeof faultyDatabases>;
let service: Send;
let key: string;

beforeEach(async () => {
  expire = stopDeadlines(TIMEOUT_MS);
  ({ key } = await createApiKey());
  await placeManyOrders(ORDERS);
  start();
});

function start(...names: ("ORDERS" | "KEYS")[]): void {
  line = faultyDatabases(...names);
  line.script.onHang = expire;
  service = startService({ DATABASE_TIMEOUT_MS: String(TIMEOUT_MS) }, line.bindings);
}

async function expectUnavailable(response: Response): Promise<void> {
  expect(response.headers.get("Retry-After")).toBe("5");
  expect(response.headers.has("WWW-Authenticate")).toBe(false);
  expect(response.headers.has("ETag")).toBe(false);
  quotaOf(response);
  await expectError(response, 503, "service_unavailable");
}

describe.each(FAULTS)("while the databases %s", (_, outcome) => {
  test("a list and a cancellation receive 503; each query is sent once", async () => {
    stopClock();
    await service("/v1/nothing", { key });
    line.script.always(outcome);
    line.script.calls = 0;
    const first = await service(LIST, { key });
    const requestId = first.headers.get("X-Request-Id");
    await expectUnavailable(first);
    await expectUnavailable(await service(LIST, { key }));
    expect(line.script.calls).toBe(2);
    const head = await service(LIST, { key, method: "HEAD" });
    expect([head.status, await head.text()]).toStrictEqual([503, ""]);
    line.script.calls = 0;
    // A write is not repeated, because its outcome is unknown.
    await expectUnavailable(await service(ORDER, { key, method: "DELETE" }));
    expect(line.script.calls).toBe(1);
    expect(await storedOrder(7n)).toMatchObject({ status: "pending", cancelledAt: null });
    expect(eventLines()).toMatchObject([{ event: "orders_database_unavailable", requestId }]);
    line.script.always(PASS);
    advanceClock(10_000);
    expect((await service(ORDER, { key, method: "DELETE" })).status).toBe(204);
    expect(eventLines().slice(1)).toMatchObject([
      { event: "orders_database_available", failures: 4 },
    ]);
  });

  test("a remembered key is valid for 25 seconds, and then receives 503, never 401", async () => {
    stopClock();
    await service("/v1/nothing", { key });
    line.script.always(outcome);
    for (const waitMs of [1_000, 9_000, 1_000, 13_999]) {
      advanceClock(waitMs);
      await expectError(await service("/v1/nothing", { key }), 404, "not_found");
    }
    advanceClock(1);
    await expectUnavailable(await service("/v1/nothing", { key }));
    line.script.always(PASS);
    expect((await service("/v1/nothing", { key })).status).toBe(404);
  });

  test("an unknown key receives 503 and does not count against the client's address; mistyped and missing keys receive 401", async () => {
    line.script.always(outcome);
    for (let n = 0; n < 3; n++) {
      const response = await service(LIST, { key: generateSecret(), address: "192.0.2.7" });
      expect(quotaOf(response).remaining).toBe(60);
      await expectUnavailable(response);
    }
    line.script.calls = 0;
    await expectError(await service(LIST), 401, "unauthorized");
    await expectError(await service(LIST, { key: "sord_mistyped" }), 401, "unauthorized");
    expect(line.script.calls).toBe(0);
  });

  test("one of them, the other one works", async () => {
    start("ORDERS");
    line.script.always(outcome);
    await expectUnavailable(await service(LIST, { key }));
    await expectError(await service(LIST, { key: generateSecret() }), 401, "unauthorized");
    start("KEYS");
    await service("/v1/nothing", { key });
    line.script.always(outcome);
    const { key: unseen } = await createApiKey();
    await expectUnavailable(await service(LIST, { key: unseen }));
    expect(await (await service(LIST, { key })).json()).toHaveLength(ORDERS);
    expect((await service(ORDER, { key, method: "DELETE" })).status).toBe(204);
    const degraded = requestLines().map((request) => request.degraded);
    expect(degraded).toStrictEqual(["orders", null, null, "keys", null, null]);
    const outages = ["orders_database_unavailable", "keys_database_unavailable"];
    expect(events()).toStrictEqual(outages);
  });
});

test("an outage of the keys database ends with a successful look-up of a key, not with a successful list", async () => {
  stopClock();
  start("KEYS");
  await service("/v1/nothing", { key });
  line.script.always(LOST);
  const unknown = generateSecret();
  await service(LIST, { key: unknown });
  advanceClock(20_000);
  expect((await service(LIST, { key })).status).toBe(200);
  expect(events()).toHaveLength(1);
  line.script.always(PASS);
  expect((await service(LIST, { key: unknown })).status).toBe(401);
  expect(events()).toStrictEqual(["keys_database_unavailable", "keys_database_available"]);
});

const path = { GET: LIST, DELETE: ORDER };

test.each([
  ["GET", BUSY, 200],
  ["DELETE", BUSY, 204],
  ["GET", HIDDEN, 200],
  ["DELETE", HIDDEN, 503],
] as const)(
  "a busy database is queried again by %s until it is no longer busy",
  async (method, busy, status) => {
    line.script.next(BUSY, HIDDEN);
    await service("/v1/nothing", { key });
    expect(line.script.calls).toBe(3);
    line.script.next(busy, busy);
    expect((await service(path[method], { method, key })).status).toBe(status);
    expect(line.script.calls).toBe(status === 503 ? 4 : 6);
  },
);

test("a cancellation whose result is lost receives 503, and 404 when it is repeated", async () => {
  await service("/v1/nothing", { key });
  line.script.next(loseTheAnswer("D1_ERROR: Network connection lost."));
  await expectUnavailable(await service(ORDER, { method: "DELETE", key }));
  const stored = await storedOrder(7n);
  expect(stored).toMatchObject({ status: "cancelled" });
  const again = await service(ORDER, { method: "DELETE", key });
  expect(await expectError(again, 404, "order_not_found")).toMatch(/cancelled before/);
  expect(await storedOrder(7n)).toStrictEqual(stored);
});

test("a request over the limit receives 429 although the database does not respond", async () => {
  const limited = await createEnterpriseKey(1, 10);
  await service("/v1/nothing", limited);
  line.script.always(LOST);
  for (let n = 0; n < 3; n++) {
    await expectError(await service(LIST, limited), 429, "rate_limit_exceeded");
  }
  expect(eventLines()).toStrictEqual([]);
});

test("a list is cut off as invalid JSON if a query gets no response, and is complete when requested again", async () => {
  stopClock();
  await cutIntoSegments(2);
  await service("/v1/nothing", { key });
  line.script.next(LOST, PASS, LOST, BUSY, PASS, HANG);
  expect((await service(LIST, { key })).status).toBe(503);
  const response = await service(LIST, { key });
  quotaOf(response);
  let text = "";
  const read = async () => {
    const chunks = response.body!.pipeThrough(new TextDecoderStream());
    for await (const chunk of chunks) text += chunk;
  };
  await expect(read()).rejects.toThrow();
  expect(response.status).toBe(200);
  expect(text).toMatch(/^\[\{"id":1\},.*[^\]]$/);
  const requestId = response.headers.get("X-Request-Id");
  expect(eventLines().at(-1)).toMatchObject({ event: "order_list_broken", requestId });
  line.script.next(PASS, LOST, BUSY, LOST, LOST);
  expect(await (await service(LIST, { key })).json()).toHaveLength(ORDERS);
});
