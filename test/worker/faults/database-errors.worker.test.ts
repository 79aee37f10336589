import { beforeEach, describe, expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { type Send, startService } from "../../support/service.ts";
import { fail, HANG, loseTheAnswer, type Outcome, PASS } from "./fault-script.ts";
import { type FaultyDatabases, faultyDatabases } from "./faulty-bindings.ts";
import { events, type LogLine, readLog } from "./log-lines.ts";

const LIST = "/v1/store/orders";
const ORDER = `${LIST}/7`;

/** The errors that Cloudflare documents in "Debug D1", section "List of D1_ERRORs". */
const UNAVAILABLE = [
  "D1 DB reset because its code was updated.",
  "Internal error while starting up D1 DB storage caused object to be reset.",
  "Network connection lost.",
  "Internal error in D1 DB storage caused object to be reset.",
  "Cannot resolve D1 DB due to transient issue on remote node.",
  "Can't read from request stream because client disconnected.",
  "D1 DB storage operation exceeded timeout which caused object to be reset.",
  "D1 DB is overloaded. Requests queued for too long.",
  "D1 DB is overloaded. Too many requests queued.",
  "D1 DB's isolate exceeded its memory limit and was reset.",
  "D1 DB exceeded its CPU time limit and was reset.",
].map((message): [string, Outcome] => [message, fail(`D1_ERROR: ${message}`)]);

/** Errors of wrong statements, which fail in every attempt. */
const STATEMENT_ERRORS = [
  "D1_ERROR: no such table: orders: SQLITE_ERROR",
  "D1_ERROR: CHECK constraint failed: complete_is_boolean: SQLITE_CONSTRAINT",
  "D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'",
  "D1_COLUMN_NOTFOUND: Column not found (id)",
  "D1_EXEC_ERROR: Error in line 1: SELECT: incomplete input: SQLITE_ERROR",
].map((message): [string, Outcome] => [message, fail(message)]);

const BUSY = fail("D1_ERROR: database is locked: SQLITE_BUSY");

let line: FaultyDatabases;
let service: Send;
let log: () => LogLine[];
let key: string;

beforeEach(async () => {
  log = readLog();
  line = faultyDatabases();
  service = startService({ DATABASE_TIMEOUT_MS: "250" }, line.bindings);
  ({ key } = await createApiKey());
  await placeOrder(7n);
});

async function expectUnavailable(response: Response): Promise<void> {
  expect(response.headers.get("Retry-After")).toBe("5");
  expect(response.headers.has("WWW-Authenticate")).toBe(false);
  expect(response.headers.has("ETag")).toBe(false);
  quotaOf(response);
  await expectError(response, 503, "service_unavailable");
}

/** After a query has timed out, the service sends no queries for this long. */
const PAUSE_MS = 1_000;

describe.each([...UNAVAILABLE, ["silence", HANG] as [string, Outcome]])(
  "%s",
  (message, outcome) => {
    test("leads to 503 for an authentication, a list and a cancellation; the cancellation changes nothing", async () => {
      stopClock();
      line.script.always(outcome);
      const unknown = await service(LIST, { key });
      expect(quotaOf(unknown)).toMatchObject({ limit: 60, remaining: 60 });
      await expectUnavailable(unknown);

      line.script.always(PASS);
      advanceClock(PAUSE_MS);
      expect((await service("/v1/nothing", { key })).status).toBe(404);
      line.script.always(outcome);
      line.script.calls = 0;
      await expectUnavailable(await service(LIST, { key }));
      advanceClock(PAUSE_MS);
      const head = await service(LIST, { key, method: "HEAD" });
      expect([head.status, await head.text()]).toStrictEqual([503, ""]);
      advanceClock(PAUSE_MS);
      const cancelled = await service(ORDER, { key, method: "DELETE" });
      expect(quotaOf(cancelled)).toMatchObject({ remaining: 56 });
      await expectUnavailable(cancelled);
      // The service sent each of the three queries only once. D1 itself retries reads. A write must
      // not be retried, because its outcome is unknown.
      expect(line.script.calls).toBe(3);
      expect(await storedOrder(7n)).toMatchObject({ status: "pending", cancelledAt: null });

      expect(events(log())).toStrictEqual([
        "keys_database_unavailable",
        "orders_database_unavailable",
      ]);
      expect(log()[0]).toMatchObject({
        requestId: unknown.headers.get("X-Request-Id"),
        error: message === "silence" ? expect.stringMatching(/timed out/) : expect.any(String),
      });
      expect(JSON.stringify(log())).not.toContain(key);

      line.script.always(PASS);
      advanceClock(PAUSE_MS);
      expect((await service(ORDER, { key, method: "DELETE" })).status).toBe(204);
    });
  },
);

test.each(STATEMENT_ERRORS)("%s leads to 500, is logged and is not retried", async (_, outcome) => {
  await service("/v1/nothing", { key });
  for (const [method, path] of [
    ["GET", LIST],
    ["DELETE", ORDER],
  ] as const) {
    line.script.calls = 0;
    line.script.next(outcome);
    const response = await service(path, { method, key });
    expect(response.headers.has("Retry-After")).toBe(false);
    const message = await expectError(response, 500, "internal_error");
    const id = response.headers.get("X-Request-Id")!;
    expect(message).toContain(id);
    quotaOf(response);
    expect(line.script.calls).toBe(1);
    expect(log().at(-1)).toMatchObject({ event: "internal_error", requestId: id });
  }
  expect(await storedOrder(7n)).toMatchObject({ status: "pending" });
});

describe("a busy database", () => {
  /**
   * Starts a service with a database timeout that is long enough for all retries, even on a slow
   * machine.
   */
  const patient = () => startService({ DATABASE_TIMEOUT_MS: "10000" }, line.bindings);

  test.each([
    ["GET", LIST, 200],
    ["HEAD", LIST, 200],
    ["DELETE", ORDER, 204],
  ])("is queried again by %s until it is no longer busy", async (method, path, status) => {
    const send = patient();
    await send("/v1/nothing", { key });
    line.script.calls = 0;
    line.script.next(BUSY, BUSY, BUSY);
    expect((await send(path, { method, key })).status).toBe(status);
    expect(line.script.calls).toBe(4);
    expect(events(log())).toStrictEqual([]);
  });

  test("authenticates a new key as soon as it is no longer busy", async () => {
    line.script.next(BUSY, BUSY);
    expect((await patient()("/v1/nothing", { key })).status).toBe(404);
    expect(line.script.calls).toBe(3);
  });

  test("leads to 503 at the timeout if it stays busy", async () => {
    await service("/v1/nothing", { key });
    line.script.always(BUSY);
    const began = performance.now();
    await expectUnavailable(await service(ORDER, { method: "DELETE", key }));
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(await storedOrder(7n)).toMatchObject({ status: "pending" });
  });
});

describe("a cancellation whose result is lost", () => {
  test("receives 503, and 404 when it is repeated, because the order is already cancelled", async () => {
    await service("/v1/nothing", { key });
    line.script.next(loseTheAnswer("D1_ERROR: Network connection lost."));
    await expectUnavailable(await service(ORDER, { method: "DELETE", key }));
    const stored = await storedOrder(7n);
    expect(stored).toMatchObject({ status: "cancelled" });
    const again = await service(ORDER, { method: "DELETE", key });
    expect(await expectError(again, 404, "order_not_found")).toMatch(/cancelled before/);
    expect(await storedOrder(7n)).toStrictEqual(stored);
    expect(await (await service(LIST, { key })).text()).toBe("[]");
  });

  test("never cancels a shipped order", async () => {
    await placeOrder(8n, { status: "shipped" });
    await service("/v1/nothing", { key });
    line.script.next(loseTheAnswer("D1_ERROR: Network connection lost."));
    await expectUnavailable(await service(`${LIST}/8`, { method: "DELETE", key }));
    const again = await service(`${LIST}/8`, { method: "DELETE", key });
    await expectError(again, 409, "order_already_shipped");
    expect(await storedOrder(8n)).toMatchObject({ status: "shipped", cancelledAt: null });
  });
});

describe.each([
  ["fails", UNAVAILABLE[2]![1]],
  ["hangs", HANG],
])("while the database %s", (_, outcome) => {
  test("a remembered key is valid for 25 seconds, and then receives 503, never 401", async () => {
    stopClock();
    await service("/v1/nothing", { key });
    line.script.always(outcome);
    for (const waitMs of [1_000, 9_000, 1_000, 13_999]) {
      advanceClock(waitMs);
      const response = await service("/v1/nothing", { key });
      await expectError(response, 404, "not_found");
    }
    advanceClock(1);
    await expectUnavailable(await service("/v1/nothing", { key }));
    line.script.always(PASS);
    advanceClock(PAUSE_MS);
    expect((await service("/v1/nothing", { key })).status).toBe(404);
  });

  test("a new key receives 503, and the request does not count against the client's address", async () => {
    line.script.always(outcome);
    for (let n = 0; n < 3; n++) {
      const response = await service(LIST, { key: generateSecret(), address: "192.0.2.7" });
      expect(quotaOf(response).remaining).toBe(60);
      await expectUnavailable(response);
    }
  });

  test("requests with missing or mistyped credentials still receive 401", async () => {
    line.script.always(outcome);
    await expectError(await service(LIST), 401, "unauthorized");
    await expectError(await service(LIST, { key: "sord_mistyped" }), 401, "unauthorized");
    expect(line.script.calls).toBe(0);
  });
});

test("a key that was revoked before the database failed still receives 401", async () => {
  stopClock();
  const revoked = await createApiKey({ revokedAt: new Date(Date.now() - 1) });
  await expectError(await service(LIST, { key: revoked.key }), 401, "unauthorized");
  line.script.always(UNAVAILABLE[2]![1]);
  advanceClock(20_000);
  await expectError(await service(LIST, { key: revoked.key }), 401, "unauthorized");
});

test("a request over the limit receives 429 although the database does not respond", async () => {
  const limited = await createEnterpriseKey(1, 10);
  await service("/v1/nothing", limited);
  line.script.always(UNAVAILABLE[2]![1]);
  for (let n = 0; n < 3; n++) {
    await expectError(await service(LIST, limited), 429, "rate_limit_exceeded");
  }
  expect(log()).toStrictEqual([]);
});
