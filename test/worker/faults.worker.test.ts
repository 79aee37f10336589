import { beforeEach, expect, test } from "vitest";
import { generateSecret } from "../../src/store/keys/new-secret.ts";
import { MAX_ATTEMPTS } from "../../src/worker/db/availability.ts";
import { expectError, quotaOf } from "../support/answer.ts";
import { createApiKey, createEnterpriseKey, rotate } from "../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../support/clock.ts";
import * as faults from "../support/faults.ts";
import { limiterStorage } from "../support/limiter.ts";
import { placeManyOrders, storedOrder } from "../support/order-fixture.ts";
import { LIST, type Send, send, startService } from "../support/service.ts";
import { eventLines, events, requestLines } from "../support/written-lines.ts";

const { fail, HANG, LOST, loseTheAnswer, PASS } = faults;

const UNKNOWN = "/v1/nothing";
const ORDERS = 40;
/** An error that a local D1 may report instead of `SQLITE_BUSY`. */
const HIDDEN = fail("D1_ERROR: internal error; reference = 1");

// The errors have the messages and properties from Cloudflare's documentation of Durable Objects.
const NETWORK = fail("Network connection lost.", { retryable: true });
const MARKS = { retryable: true, overloaded: true };
const OVERLOAD = fail("Durable Object is overloaded. Requests queued for too long.", MARKS);
const LOST_REPLY = loseTheAnswer("Network connection lost.", { retryable: true });

/** The timeout of queries and calls. `skipDeadlines` finds their timers by this unusual length. */
const TIMEOUT_MS = 29_999;

let service: Send;
let id: string;
let key: string;
let script: faults.FaultScript;

function start(line: { readonly bindings: object; readonly script: faults.FaultScript }): void {
  ({ script } = line);
  script.onHang = faults.skipDeadlines(TIMEOUT_MS);
  const vars = { DATABASE_TIMEOUT_MS: String(TIMEOUT_MS), LIMITER_TIMEOUT_MS: String(TIMEOUT_MS) };
  service = startService(vars, line.bindings);
}

/** Starts a service whose limiters can fail, and creates a key for three requests a minute. */
async function startWithLimiters() {
  const line = faults.faultyLimiters();
  start(line);
  ({ id, key } = await createEnterpriseKey(3, 10));
  return line.places;
}

beforeEach(async () => {
  stopClock();
  ({ key } = await createApiKey());
  await placeManyOrders(ORDERS);
});

const cancel = () => service(`${LIST}/7`, { key, method: "DELETE" });
const storedState = async () => (await limiterStorage(`key:${id}`)).record;
const list = () => service(LIST, { key });
const remaining = async () => quotaOf(await list()).remaining;

async function expectUnavailable(request: () => Promise<Response>, queries = 1): Promise<Response> {
  script.calls = 0;
  const response = await request();
  expect(script.calls).toBe(queries);
  expect(response.headers.get("Retry-After")).toBe("5");
  await expectError(response, 503, "service_unavailable");
  return response;
}

test("while the orders database fails or hangs, a list receives 503 after five queries, a cancellation after one (also if it has succeeded), a key past its limit still 429, an unknown one 401", async () => {
  start(faults.faultyDatabases("ORDERS"));
  await service(UNKNOWN, { key }); // The isolate then remembers the key.
  const limited = await createEnterpriseKey(1, 10);
  await send(UNKNOWN, limited); // In another isolate.
  for (const outcome of [LOST, HANG]) {
    script.always(outcome);
    await expectUnavailable(list, outcome === LOST ? MAX_ATTEMPTS : 1);
    // A write is not repeated, because its outcome is unknown.
    await expectUnavailable(cancel);
  }
  script.next(HIDDEN);
  await expectUnavailable(cancel);
  expect(await storedOrder(7n)).toMatchObject({ status: "pending", cancelledAt: null });
  for (let n = 0; n < 2; n++) {
    await expectError(await service(LIST, limited), 429, "rate_limit_exceeded");
  }
  await expectError(await service(LIST, { key: generateSecret() }), 401, "unauthorized");
  // An outage is over after ten seconds without a failure.
  script.always(PASS);
  advanceClock(9_999);
  script.next(loseTheAnswer("D1_ERROR: Network connection lost."));
  await expectUnavailable(cancel);
  expect(await expectError(await cancel(), 404, "order_not_found")).toMatch(/cancelled before/);
  script.next(...Array<faults.Outcome>(MAX_ATTEMPTS).fill(LOST));
  await expectUnavailable(list, MAX_ATTEMPTS);
  advanceClock(9_999);
  await list();
  expect(events()).toStrictEqual(["quota_low", "orders_database_unavailable"]);
  advanceClock(1);
  await list();
  const ended = { event: "orders_database_available", failures: 7, seconds: 10 };
  expect(eventLines().slice(2)).toMatchObject([ended]);
});

test("while the keys database fails or hangs, an unknown key receives 503, which counts against no address; a remembered key is served for 25 seconds, and then receives 503, never 401", async () => {
  start(faults.faultyDatabases("KEYS"));
  await service(UNKNOWN, { key }); // The isolate then remembers the key.
  for (const outcome of [LOST, HANG, LOST]) {
    script.always(outcome);
    const secret = { key: generateSecret(), address: "192.0.2.7" };
    expect(quotaOf(await expectUnavailable(() => service(LIST, secret))).remaining).toBe(60);
  }
  expect((await cancel()).status).toBe(204);
  for (const waitMs of [10_000, 14_999]) {
    advanceClock(waitMs);
    await expectError(await service(UNKNOWN, { key }), 404, "not_found");
  }
  // A successful list does not end the outage of the keys database.
  expect(await (await list()).json()).toHaveLength(ORDERS - 1);
  expect(events()).toStrictEqual(["keys_database_unavailable"]);
  advanceClock(1);
  await expectUnavailable(() => service(UNKNOWN, { key }));
  // A read is repeated if the database hides that it is busy.
  script.always(PASS).next(HIDDEN);
  advanceClock(10_000);
  expect((await service(UNKNOWN, { key })).status).toBe(404);
  expect(eventLines().slice(1)).toMatchObject([{ event: "keys_database_available", failures: 4 }]);
});

// What a series of faults does is shown in test/worker/limiter.
test.each<[string, faults.Outcome[], counted: number, usesFallback: boolean]>([
  ["of the network", [NETWORK], 1, false],
  ["by silence", [HANG], 0, true],
  ["after the object had decided, with a retry", [LOST_REPLY], 1, false],
  ["after the object had decided", [loseTheAnswer("Internal error.")], 1, true],
])("one fault %s", async (_, outcomes, counted, usesFallback) => {
  const places = await startWithLimiters();
  script.next(...outcomes);
  const response = await cancel();
  expect(response.status).toBe(204);
  const day = { limit: 10, seconds: 86_400 };
  expect(quotaOf(response)).toMatchObject({ limit: 3, remaining: 2, minute: { seconds: 60 }, day });
  // Every call uses a new stub, because a stub that has thrown may be permanently broken.
  const calls = usesFallback ? 1 : 2;
  expect([script.calls, places.length]).toStrictEqual([calls, calls]);
  expect((await storedState())?.minute?.count ?? 0).toBe(counted);
  const began = { event: "fallback_limiter_on", keyId: id };
  expect(eventLines()).toMatchObject(usesFallback ? [began] : []);

  // For one second after a request used the fallback, only the objects of other keys are called.
  expect(await remaining()).toBe(1);
  await service(LIST, await createEnterpriseKey(3, 10));
  expect(script.calls).toBe(calls + (usesFallback ? 1 : 2));
  advanceClock(1_000);
  expect(await remaining()).toBe(usesFallback ? 2 - counted : 0);
  advanceClock(10_000);
  await list();
  const low = counted === 1 ? ["quota_low"] : [];
  const around = ["fallback_limiter_on", ...low, "fallback_limiter_off"];
  if (usesFallback) expect(events()).toStrictEqual(around);
});

test("a Durable Object that is overloaded, at once or at a retry, admits nothing, counts nothing and is not called again", async () => {
  await startWithLimiters();
  for (const outcomes of [[OVERLOAD], [NETWORK, OVERLOAD]]) {
    script.next(...outcomes).calls = 0;
    const response = await cancel();
    expect(response.headers.get("Retry-After")).toBe("1");
    const quota = { limit: 10, remaining: 0, minute: { seconds: 1 }, day: { seconds: 1 } };
    expect(quotaOf(response)).toMatchObject(quota);
    await expectError(response, 503, "service_unavailable");
    expect(await storedOrder(7n)).toMatchObject({ status: "pending" });
    expect(script.calls).toBe(outcomes.length);
    expect(await storedState()).toBeNull();
    expect(requestLines().at(-1)).toMatchObject({ degraded: "limiter" });
  }
  expect(events()).toStrictEqual(["limiter_overloaded"]);
  expect(await remaining()).toBe(2);
  advanceClock(10_000);
  await list();
  expect(events().at(-1)).toBe("limiter_not_overloaded");
});

test("a key's Durable Object is requested in the key's region, also with a former secret", async () => {
  const places = await startWithLimiters();
  const { id: keyId, key: former } = await createApiKey({ locationHint: "weur" });
  const own = await rotate(keyId, 60_000);
  for (const secret of [former, own, key]) await service(LIST, { key: secret });
  expect(places).toEqual([{ locationHint: "weur" }, { locationHint: "weur" }, undefined]);
});
