import { beforeEach, expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey, rotate } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { limiterStorage } from "../../support/limiter.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, type Send, startService } from "../../support/service.ts";
import {
  fail,
  faultyLimiters,
  HANG,
  loseTheAnswer,
  type Outcome,
  PASS,
  stopDeadlines,
} from "../../support/faults.ts";
import { eventLines, events, requestLines } from "../../support/written-lines.ts";

// The errors have the messages and properties from Cloudflare's documentation of Durable Objects.
const NETWORK = fail("Network connection lost.", { retryable: true });
const DEPLOYMENT = fail("Durable Object reset because its code was updated.", { retryable: true });
const OVERLOAD = fail("Durable Object is overloaded. Requests queued for too long.", {
  retryable: true,
  overloaded: true,
});
const FAULT = fail("Internal error in Durable Object storage caused object to be reset.");
const LOST_REPLY = loseTheAnswer("Network connection lost.", { retryable: true });

/** The timeout of limiter calls. `stopDeadlines` finds their timers by this unusual length. */
const TIMEOUT_MS = 29_999;

let line: ReturnType<typeof faultyLimiters>;
let service: Send;
let id: string;
let key: string;

beforeEach(async () => {
  stopClock();
  line = faultyLimiters();
  line.script.onHang = stopDeadlines(TIMEOUT_MS);
  service = startService({ LIMITER_TIMEOUT_MS: String(TIMEOUT_MS) }, line.bindings);
  ({ id, key } = await createEnterpriseKey(3, 10));
  await placeOrder(1n);
});

const stored = async () => (await limiterStorage(`key:${id}`)).record;
const request = () => service(LIST, { key });
const remaining = async () => quotaOf(await request()).remaining;
const cancel = () => service(`${LIST}/1`, { method: "DELETE", key });

test.each<[string, Outcome[], calls: number, counted: number, usesFallback: boolean]>([
  ["of the network", [NETWORK], 2, 1, false],
  ["three times", [NETWORK, DEPLOYMENT, NETWORK], 3, 0, true],
  ["of the object", [FAULT], 1, 0, true],
  ["by silence", [HANG], 1, 0, true],
  ["after the object had decided, with a retry", [LOST_REPLY], 2, 1, false],
  ["after the object had decided", [loseTheAnswer("Internal error.")], 1, 1, true],
])("one fault %s", async (_, outcomes, calls, counted, usesFallback) => {
  line.script.next(...outcomes);
  const response = await cancel();
  expect(response.status).toBe(204);
  expect(quotaOf(response)).toMatchObject({
    limit: 3,
    remaining: usesFallback ? 2 : 3 - counted,
    minute: { seconds: 60 },
    day: { limit: 10, seconds: 86_400 },
  });
  // Every call uses a new stub, because a stub that has thrown may be permanently broken.
  expect([line.script.calls, line.places.length]).toStrictEqual([calls, calls]);
  expect((await stored())?.minute?.count ?? 0).toBe(counted);
  const began = { event: "fallback_limiter_on", keyId: id };
  expect(eventLines()).toMatchObject(usesFallback ? [began] : []);

  // For one second after a request used the fallback, only the objects of other keys are called.
  expect(await remaining()).toBe(1);
  await service(LIST, await createEnterpriseKey(3, 10));
  expect(line.script.calls).toBe(calls + (usesFallback ? 1 : 2));
  advanceClock(1_000);
  expect(await remaining()).toBe(usesFallback ? 2 - counted : 0);
});

test("a Durable Object that is overloaded, at once or at a retry, admits nothing, counts nothing and is not called again", async () => {
  for (const outcomes of [[OVERLOAD], [NETWORK, OVERLOAD]]) {
    line.script.next(...outcomes).calls = 0;
    const response = await cancel();
    expect(response.headers.get("Retry-After")).toBe("1");
    const day = { limit: 10, seconds: 1 };
    expect(quotaOf(response)).toMatchObject({
      limit: 10,
      remaining: 0,
      minute: { seconds: 1 },
      day,
    });
    await expectError(response, 503, "service_unavailable");
    expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
    expect(line.script.calls).toBe(outcomes.length);
    expect(await stored()).toBeNull();
    expect(requestLines().at(-1)).toMatchObject({ degraded: "limiter" });
  }
  expect(events()).toStrictEqual(["limiter_overloaded"]);
  expect(await remaining()).toBe(2);
});

test.each([
  ["break", FAULT],
  ["hang", HANG],
  ["are overloaded", OVERLOAD],
])(
  "while the Durable Objects %s, a refusal lasts until its end, and ends no outage",
  async (_, outcome) => {
    for (let n = 0; n < 4; n++) await request();
    advanceClock(10_000);
    line.script.always(outcome);
    for (let n = 0; n < 40; n++) {
      const response = await request();
      expect(response.headers.get("Retry-After")).toBe("50");
      await expectError(response, 429, "rate_limit_exceeded");
    }
    expect([...new Set(events())]).toStrictEqual(["refusals_unreported"]);
    await service(LIST, await createEnterpriseKey(3, 10));
    expect(events().at(-1)).toMatch(/fallback_limiter_on|limiter_overloaded/);
    advanceClock(20_000);
    expect((await request()).status).toBe(429);
    line.script.always(PASS);
    advanceClock(30_000);
    expect(events().at(-1)).not.toMatch(/_off|not_overloaded/);
    expect(await remaining()).toBe(2);
    expect(await stored()).toMatchObject({ minute: { count: 1 }, day: { count: 4 }, ban: null });
  },
);

test("a key's Durable Object is requested in the key's region, also with a former secret", async () => {
  const { id: keyId, key: former } = await createApiKey({ locationHint: "weur" });
  const own = await rotate(keyId, 60_000);
  for (const secret of [former, own, key]) await service(LIST, { key: secret });
  expect(line.places).toEqual([{ locationHint: "weur" }, { locationHint: "weur" }, undefined]);
});
