import { beforeEach, describe, expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { evictLimiter, limiterStorage } from "../../support/limiter.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { type Send, startService } from "../../support/service.ts";
import { requestLines } from "../../support/written-lines.ts";
import { fail, HANG, loseTheAnswer, type Outcome, PASS } from "./fault-script.ts";
import { type FaultyLimiters, faultyLimiters } from "./faulty-bindings.ts";
import { stopDeadlines } from "./call-deadlines.ts";
import { events, type LogLine, readLog } from "./log-lines.ts";

const LIST = "/v1/store/orders";

/**
 * An error for a lost connection. The errors in this file have the messages and properties from
 * Cloudflare's documentation of Durable Objects.
 */
const NETWORK = fail("Network connection lost.", { retryable: true });
const DEPLOYMENT = fail("Durable Object reset because its code was updated.", { retryable: true });
const OVERLOAD = fail("Durable Object is overloaded. Requests queued for too long.", {
  retryable: true,
  overloaded: true,
});
const FAULT = fail("Internal error in Durable Object storage caused object to be reset.");

/**
 * The timeout of calls to the Durable Object. No other timer has this length, so the test can
 * recognize it.
 */
const TIMEOUT_MS = 29_999;

let line: FaultyLimiters;
let passDeadlines: () => void;
let service: Send;
let log: () => LogLine[];
let id: string;
let key: string;

beforeEach(async () => {
  log = readLog();
  line = faultyLimiters();
  passDeadlines = stopDeadlines(TIMEOUT_MS);
  line.script.onHang = passDeadlines;
  const vars = { LIMITER_TIMEOUT_MS: String(TIMEOUT_MS) };
  service = startService(vars, { RATE_LIMITER: line.limiters });
  ({ id, key } = await createEnterpriseKey(3, 10));
  stopClock();
});

const stored = async () => (await limiterStorage(`key:${id}`)).record;

async function remainingOf(response: Response): Promise<number> {
  await response.text();
  return quotaOf(response).remaining;
}

describe("one fault", () => {
  const lost = new Error("Network connection lost.");
  test.each<[string, Outcome[], { calls: number; usesFallback: boolean; counted: number }]>([
    ["of the network", [NETWORK], { calls: 2, usesFallback: false, counted: 1 }],
    ["of a deployment", [DEPLOYMENT], { calls: 2, usesFallback: false, counted: 1 }],
    ["twice", [NETWORK, DEPLOYMENT], { calls: 3, usesFallback: false, counted: 1 }],
    ["three times", [NETWORK, NETWORK, NETWORK], { calls: 3, usesFallback: true, counted: 0 }],
    ["of the object", [FAULT], { calls: 1, usesFallback: true, counted: 0 }],
    ["by silence", [HANG], { calls: 1, usesFallback: true, counted: 0 }],
    ["and then silence", [NETWORK, HANG], { calls: 2, usesFallback: true, counted: 0 }],
    [
      "after the object had decided, with a retry",
      [{ do: "lose the answer", error: Object.assign(lost, { retryable: true }) }],
      { calls: 2, usesFallback: false, counted: 1 },
    ],
    [
      "after the object had decided",
      [loseTheAnswer("Internal error.")],
      { calls: 1, usesFallback: true, counted: 1 },
    ],
  ])("%s", async (_, outcomes, { calls, usesFallback, counted }) => {
    await placeOrder(1n);
    line.script.next(...outcomes);
    const response = await service(`${LIST}/1`, { method: "DELETE", key });
    expect(response.status).toBe(204);
    expect(await response.text()).toBe("");
    expect(quotaOf(response)).toMatchObject({
      limit: 3,
      remaining: usesFallback ? 2 : 3 - counted,
      minute: { seconds: 60 },
      day: { limit: 10, seconds: 86_400 },
    });
    expect((await storedOrder(1n))?.["status"]).not.toBe("pending");
    expect(line.script.calls).toBe(calls);
    // Every call uses a new stub, because a stub that has thrown may be permanently broken.
    expect(line.stubs()).toBe(calls);
    expect((await stored())?.minute?.count ?? 0).toBe(counted);
    expect(events(log())).toStrictEqual(usesFallback ? ["fallback_limiter_on"] : []);
    for (const entry of log()) expect(entry["keyId"]).toBe(id);
  });
});

describe("an overloaded Durable Object", () => {
  test.each<[string, Outcome[]]>([
    ["at once", [OVERLOAD]],
    ["at a retry", [NETWORK, OVERLOAD]],
  ])("%s admits nothing, counts nothing and is not called again", async (_, outcomes) => {
    await placeOrder(1n);
    line.script.next(...outcomes);
    const response = await service(`${LIST}/1`, { method: "DELETE", key });
    expect(response.headers.get("Retry-After")).toBe("1");
    expect(quotaOf(response)).toMatchObject({
      limit: 10,
      remaining: 0,
      minute: { seconds: 1 },
      day: { limit: 10, seconds: 1 },
    });
    await expectError(response, 503, "service_unavailable");
    expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
    expect(line.script.calls).toBe(outcomes.length);
    expect(await stored()).toBeNull();
    expect(events(log())).toStrictEqual(["limiter_overloaded"]);
    expect(requestLines().at(-1)).toMatchObject({ degraded: "limiter" });
    expect(await remainingOf(await service(LIST, { key }))).toBe(2);
  });

  test("does not end a refusal that isolates remember", async () => {
    for (let n = 0; n < 4; n++) await service(LIST, { key });
    advanceClock(10_000);
    line.script.always(OVERLOAD);
    for (let n = 0; n < 70; n++) {
      await expectError(await service(LIST, { key }), 429, "rate_limit_exceeded");
    }
  });
});

describe("while the Durable Objects cannot be reached", () => {
  test("one isolate admits at most the limit of each window", async () => {
    line.script.always(FAULT);
    const admitted: number[] = [];
    for (let minute = 0; minute < 5; minute++) {
      let count = 0;
      for (let n = 0; n < 5; n++) {
        const response = await service(LIST, { key });
        if (response.status === 200) {
          count += 1;
          await response.text();
        } else await expectError(response, 429, "rate_limit_exceeded");
        quotaOf(response);
      }
      admitted.push(count);
      advanceClock(60_000);
    }
    expect(admitted).toStrictEqual([3, 3, 3, 1, 0]);
    expect(await stored()).toBeNull();
  });

  test("a client that keeps sending requests is banned as usual", async () => {
    line.script.always(FAULT);
    const statuses: string[] = [];
    for (let n = 0; n < 3; n++) await service(LIST, { key });
    await service(LIST, { key });
    advanceClock(10_000);
    for (let n = 0; n < 61; n++) {
      const { code } = (await (await service(LIST, { key })).json()) as { code: string };
      statuses.push(code);
    }
    expect(statuses.slice(0, 59)).toStrictEqual(Array(59).fill("rate_limit_exceeded"));
    expect(statuses.slice(59)).toStrictEqual(["api_key_banned", "api_key_banned"]);
  });

  test("every failed authentication receives the rate-limit headers of the client's address", async () => {
    line.script.always(HANG);
    const response = await service(LIST, { address: "192.0.2.1" });
    expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 59 });
    await expectError(response, 401, "unauthorized");
    expect(log()).toStrictEqual([]);
  });
});

describe("after a failure", () => {
  test("the Durable Object is not called for a second, and then continues counting from its own state", async () => {
    expect(await remainingOf(await service(LIST, { key }))).toBe(2);
    line.script.next(FAULT);
    expect(await remainingOf(await service(LIST, { key }))).toBe(2);
    expect(await remainingOf(await service(LIST, { key }))).toBe(1);
    expect(line.script.calls).toBe(2);
    advanceClock(1_000);
    expect(await remainingOf(await service(LIST, { key }))).toBe(1);
    expect(line.script.calls).toBe(3);
    await evictLimiter(`key:${id}`);
    expect(await stored()).toMatchObject({ minute: { count: 2 }, day: { count: 2 } });
    expect(events(log())).toStrictEqual(["fallback_limiter_on"]);
  });

  test("one request a second waits for the Durable Object, and the other requests do not", async () => {
    line.script.always(HANG);
    await service(LIST, { key });
    line.script.onHang = () => undefined;
    for (let second = 1; second <= 3; second++) {
      advanceClock(1_000);
      const probe = service(LIST, { key });
      await service(LIST, { key });
      await service(LIST, { key });
      expect(line.script.calls).toBe(1 + second);
      passDeadlines();
      await probe;
    }
  });

  test("of one key's Durable Object, the Durable Objects of other keys are called as usual", async () => {
    const other = await createEnterpriseKey(3, 10);
    line.script.next(FAULT);
    await service(LIST, { key });
    await service(LIST, { key: other.key });
    expect(line.script.calls).toBe(2);
  });
});

describe("a key whose refusal the isolate remembers", () => {
  const useUp = async () => {
    for (let n = 0; n < 4; n++) await (await service(LIST, { key })).text();
    advanceClock(10_000);
  };

  test.each([
    ["break", FAULT],
    ["hang", HANG],
  ])(
    "is refused while the Durable Objects %s, although strikes cannot be reported",
    async (_, outcome) => {
      await useUp();
      line.script.always(outcome);
      for (let n = 0; n < 70; n++) {
        const response = await service(LIST, { key });
        expect(response.headers.get("Retry-After")).toBe("50");
        expect(quotaOf(response)).toMatchObject({ remaining: 0 });
        await expectError(response, 429, "rate_limit_exceeded");
      }
      expect(new Set(events(log()))).toStrictEqual(new Set(["refusals_unreported"]));
      line.script.always(PASS);
      advanceClock(50_000);
      expect(await remainingOf(await service(LIST, { key }))).toBe(2);
      expect(await stored()).toMatchObject({ minute: { count: 1 }, day: { count: 4 }, ban: null });
    },
  );

  test("stays banned until the same time while the Durable Objects cannot be reached", async () => {
    await useUp();
    for (let n = 0; n < 60; n++) await service(LIST, { key });
    const { calls } = line.script;
    line.script.always(HANG);
    const response = await service(LIST, { key });
    expect(response.headers.get("Retry-After")).toBe("60");
    await expectError(response, 429, "api_key_banned");
    expect(line.script.calls).toBe(calls);
    line.script.always(PASS);
    advanceClock(60_000);
    expect((await service(LIST, { key })).status).toBe(200);
  });
});
