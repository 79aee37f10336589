import { beforeEach, expect, test } from "vitest";
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
const UNKNOWN = "/v1/nothing";
const ORDERS = 40;
const BUSY = fail("D1_ERROR: database is locked: SQLITE_BUSY");
/** An error that a local D1 may report instead of `SQLITE_BUSY`. */
const HIDDEN = fail("D1_ERROR: internal error; reference = 1");
const FAULTS = [
  ["fails", LOST],
  ["hangs", HANG],
] as const;

/** The timeout of queries. `stopDeadlines` finds their timers by this unusual length. */
const TIMEOUT_MS = 29_998;

let service: Send;
let key: string;
let script: ReturnType<typeof faultyDatabases>["script"];

/** Starts a service whose databases can fail, and which remembers a key. */
async function start(...names: ("ORDERS" | "KEYS")[]): Promise<void> {
  const line = faultyDatabases(...names);
  ({ script } = line);
  script.onHang = stopDeadlines(TIMEOUT_MS);
  service = startService({ DATABASE_TIMEOUT_MS: String(TIMEOUT_MS) }, line.bindings);
  await service(UNKNOWN, { key });
}

beforeEach(async () => {
  stopClock();
  ({ key } = await createApiKey());
  await placeManyOrders(ORDERS);
});

const cancel = () => service(ORDER, { key, method: "DELETE" });

/** Expects a 503 after one query. */
async function expectUnavailable(request: () => Promise<Response>): Promise<Response> {
  script.calls = 0;
  const response = await request();
  expect(script.calls).toBe(1);
  expect(response.headers.get("Retry-After")).toBe("5");
  expect(response.headers.has("WWW-Authenticate")).toBe(false);
  expect(response.headers.has("ETag")).toBe(false);
  await expectError(response, 503, "service_unavailable");
  return response;
}

test.each(FAULTS)(
  "while the orders database %s, a list and a cancellation receive 503 after one query, a key past its limit still 429, an unknown one 401",
  async (_, outcome) => {
    await start("ORDERS");
    const limited = await createEnterpriseKey(1, 10);
    await service(UNKNOWN, limited);
    script.always(outcome);
    const first = await expectUnavailable(() => service(LIST, { key }));
    const requestId = first.headers.get("X-Request-Id");
    await expectUnavailable(() => service(LIST, { key }));
    // A write is not repeated, because its outcome is unknown.
    await expectUnavailable(cancel);
    expect(await storedOrder(7n)).toMatchObject({ status: "pending", cancelledAt: null });
    for (let n = 0; n < 2; n++) {
      await expectError(await service(LIST, limited), 429, "rate_limit_exceeded");
    }
    await expectError(await service(LIST, { key: generateSecret() }), 401, "unauthorized");
    const began = { event: "orders_database_unavailable", requestId };
    expect(eventLines()).toMatchObject([began]);
    const degraded = requestLines().map((request) => request.degraded);
    expect(degraded).toStrictEqual([null, null, "orders", "orders", "orders", null, null, null]);
    script.always(PASS);
    advanceClock(10_000);
    expect((await cancel()).status).toBe(204);
    const ended = { event: "orders_database_available", failures: 3 };
    expect(eventLines()).toMatchObject([began, ended]);
  },
);

test.each(FAULTS)(
  "while the keys database %s, an unknown key receives 503, which counts against no address; a remembered key is served for 25 seconds, and then receives 503, never 401",
  async (_, outcome) => {
    await start("KEYS");
    script.always(outcome);
    for (let n = 0; n < 3; n++) {
      const secret = { key: generateSecret(), address: "192.0.2.7" };
      const response = await expectUnavailable(() => service(LIST, secret));
      expect(quotaOf(response).remaining).toBe(60);
    }
    expect((await cancel()).status).toBe(204);
    for (const waitMs of [1_000, 9_000, 1_000, 13_999]) {
      advanceClock(waitMs);
      await expectError(await service(UNKNOWN, { key }), 404, "not_found");
    }
    // A successful list does not end the outage of the keys database.
    expect(await (await service(LIST, { key })).json()).toHaveLength(ORDERS - 1);
    expect(events()).toStrictEqual(["keys_database_unavailable"]);
    advanceClock(1);
    await expectUnavailable(() => service(UNKNOWN, { key }));
    const degraded = requestLines().map((request) => request.degraded);
    expect(degraded.filter((part) => part !== null)).toStrictEqual(Array(4).fill("keys"));
    script.always(PASS);
    advanceClock(10_000);
    expect((await service(UNKNOWN, { key })).status).toBe(404);
    expect(eventLines().slice(1)).toMatchObject([
      { event: "keys_database_available", failures: 4 },
    ]);
  },
);

test("a list and a look-up of a key are repeated if the database hides that it is busy, a cancellation is not", async () => {
  await start();
  const callsOf = async (request: () => Promise<Response>, status: number) => {
    script.next(BUSY, HIDDEN).calls = 0;
    expect((await request()).status).toBe(status);
    return script.calls;
  };
  expect(await callsOf(() => service(LIST, { key }), 200)).toBe(3);
  expect(await callsOf(() => service(UNKNOWN, { key: generateSecret() }), 401)).toBe(3);
  expect(await callsOf(cancel, 503)).toBe(2);
});

test("a cancellation whose result is lost receives 503, and 404 when it is repeated", async () => {
  await start();
  script.next(loseTheAnswer("D1_ERROR: Network connection lost."));
  await expectUnavailable(cancel);
  const stored = await storedOrder(7n);
  expect(stored).toMatchObject({ status: "cancelled" });
  expect(await expectError(await cancel(), 404, "order_not_found")).toMatch(/cancelled before/);
  expect(await storedOrder(7n)).toStrictEqual(stored);
});

test("a list is cut off as invalid JSON if a query gets no response, and is complete when requested again", async () => {
  await cutIntoSegments(2);
  await start();
  script.next(PASS, LOST, BUSY, PASS, HANG);
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
  script.next(PASS, LOST, BUSY, LOST, LOST);
  expect(await (await service(LIST, { key })).json()).toHaveLength(ORDERS);
});
