import { describe, expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { evictLimiter } from "../../support/limiter.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { send, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";

async function statusesOf(answers: Promise<Response>[]): Promise<number[]> {
  return (await Promise.all(answers)).map(({ status }) => status);
}

function times<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make);
}

function countOf<T>(items: T[], wanted: T): number {
  return items.filter((item) => item === wanted).length;
}

async function use(key: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    expect((await send("/v1/nothing", { key })).status).toBe(404);
  }
}

describe("under concurrency", () => {
  test("exactly 60 of 200 simultaneous requests with a Free key are admitted", async () => {
    const { key } = await createApiKey();
    const statuses = await statusesOf(times(200, () => send(LIST, { key })));
    expect(countOf(statuses, 200)).toBe(60);
    expect(countOf(statuses, 429)).toBe(140);
  });

  test("every admitted request receives a different number of remaining requests", async () => {
    const { key } = await createEnterpriseKey(30, 1_000);
    const answers = await Promise.all(times(50, () => send(LIST, { key })));
    const admitted = answers.filter(({ status }) => status === 200).map(quotaOf);
    const remainders = admitted.map(({ remaining }) => remaining).toSorted((a, b) => a - b);
    expect(remainders).toStrictEqual(Array.from({ length: 30 }, (_, n) => n));
  });

  test("each key has its own windows", async () => {
    const keys = [await createEnterpriseKey(5, 5), await createEnterpriseKey(5, 5)];
    const statuses = await statusesOf(
      keys.flatMap(({ key }) => times(8, () => send(LIST, { key }))),
    );
    expect(countOf(statuses.slice(0, 8), 200)).toBe(5);
    expect(countOf(statuses.slice(8), 200)).toBe(5);
  });

  test("exactly 60 of 200 simultaneous requests through four isolates are admitted", async () => {
    const { key } = await createApiKey();
    const isolates = times(4, () => startService());
    const answers = isolates.flatMap((isolate) => times(50, () => isolate("/v1/nothing", { key })));
    const statuses = await statusesOf(answers);
    expect(countOf(statuses, 404)).toBe(60);
    expect(countOf(statuses, 429)).toBe(140);
  });

  test("a refused request has no effect", async () => {
    const { key } = await createEnterpriseKey(1, 5);
    await placeOrder(1n);
    await send(LIST, { key });
    const response = await send(`${LIST}/1`, { method: "DELETE", key });
    await expectError(response, 429, "rate_limit_exceeded");
    expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
  });
});

describe("every authenticated request counts, whatever its response", () => {
  test.each([
    ["200", "GET", LIST, {}],
    ["204", "DELETE", `${LIST}/1`, {}],
    ["304", "GET", LIST, { "If-None-Match": "*" }],
    ["404", "DELETE", `${LIST}/9`, {}],
    ["404", "DELETE", `${LIST}/abc`, {}],
    ["404", "GET", "/v1/nothing", {}],
    ["405", "PUT", LIST, {}],
    ["405", "OPTIONS", LIST, {}],
    ["409", "DELETE", `${LIST}/2`, {}],
  ] as const)("%s %s %s", async (status, method, path, headers) => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    await placeOrder(2n, { status: "shipped" });
    const response = await send(path, { method, key, headers: { ...headers } });
    expect(String(response.status)).toBe(status);
    expect(quotaOf(response)).toMatchObject({
      minute: { remaining: 59 },
      day: { remaining: 999 },
    });
    expect(quotaOf(await send(LIST, { key }))).toMatchObject({
      minute: { remaining: 58 },
      day: { remaining: 998 },
    });
  });
});

describe("the windows", () => {
  test("end exactly their length after their first request", async () => {
    const { key } = await createEnterpriseKey(2, 100);
    const nowMs = stopClock();
    await use(key, 1);
    advanceClock(40_000);
    await use(key, 1);
    advanceClock(19_999);
    const refused = await send(LIST, { key });
    expect(refused.status).toBe(429);
    expect(refused.headers.get("Retry-After")).toBe("1");
    expect(quotaOf(refused).reset).toBe(Math.ceil((nowMs + 60_000) / 1_000));
    advanceClock(1);
    const admitted = await send(LIST, { key });
    expect(admitted.status).toBe(200);
    expect(quotaOf(admitted)).toStrictEqual({
      limit: 2,
      remaining: 1,
      reset: Math.ceil((nowMs + 120_000) / 1_000),
      minute: { limit: 2, remaining: 1, seconds: 60 },
      day: { limit: 100, remaining: 97, seconds: 86_340 },
    });
  });

  test("refuse requests until the end of the day window if the day window is full", async () => {
    const { key } = await createEnterpriseKey(2, 3);
    const nowMs = stopClock();
    await use(key, 2);
    advanceClock(60_000);
    const last = await send(LIST, { key });
    expect(quotaOf(last)).toMatchObject({ limit: 3, remaining: 0, minute: { remaining: 1 } });
    advanceClock(60_000);
    const refused = await send(LIST, { key });
    expect(refused.headers.get("Retry-After")).toBe("86280");
    expect(quotaOf(refused)).toStrictEqual({
      limit: 3,
      remaining: 0,
      reset: Math.ceil((nowMs + 86_400_000) / 1_000),
      minute: { limit: 2, remaining: 2, seconds: 60 },
      day: { limit: 3, remaining: 0, seconds: 86_280 },
    });
    expect(await expectError(refused, 429, "rate_limit_exceeded")).toContain("3 requests per day");
    advanceClock(86_280_000 - 1);
    expect((await send(LIST, { key })).status).toBe(429);
    advanceClock(1);
    expect(quotaOf(await send(LIST, { key }))).toMatchObject({
      minute: { remaining: 1, seconds: 60 },
      day: { remaining: 2, seconds: 86_400 },
    });
  });

  test("with equally many requests left are described by the window that ends later", async () => {
    const { key } = await createEnterpriseKey(2, 2);
    stopClock();
    const first = quotaOf(await send(LIST, { key }));
    expect(first.limit).toBe(2);
    expect(first.reset).toBe(Math.ceil((Date.now() + 86_400_000) / 1_000));
    await use(key, 1);
    const refused = await send(LIST, { key });
    expect(refused.headers.get("Retry-After")).toBe("86400");
    expect(quotaOf(refused)).toMatchObject({ minute: { remaining: 0 }, day: { remaining: 0 } });
  });

  test("keep their counts through an eviction", async () => {
    const { id, key } = await createEnterpriseKey(3, 10);
    const nowMs = stopClock();
    await use(key, 2);
    advanceClock(30_000);
    await evictLimiter(`key:${id}`);
    expect(quotaOf(await send(LIST, { key }))).toStrictEqual({
      limit: 3,
      remaining: 0,
      reset: Math.ceil((nowMs + 60_000) / 1_000),
      minute: { limit: 3, remaining: 0, seconds: 30 },
      day: { limit: 10, remaining: 7, seconds: 86_370 },
    });
    await evictLimiter(`key:${id}`);
    const refused = await send(LIST, { key });
    expect(refused.headers.get("Retry-After")).toBe("30");
    await expectError(refused, 429, "rate_limit_exceeded");
  });
});

describe("a change of plan inside a window keeps the count", () => {
  test("and applies the larger limit", async () => {
    const { id, key } = await createApiKey();
    stopClock();
    await use(key, 60);
    expect((await send(LIST, { key })).status).toBe(429);
    await updateApiKey(id, { plan: "pro" });
    advanceClock(30_000);
    expect(quotaOf(await send(LIST, { key }))).toMatchObject({
      minute: { limit: 300, remaining: 239, seconds: 30 },
      day: { limit: 10_000, remaining: 9_939 },
    });
  });

  test("and applies the smaller limit", async () => {
    const { id, key } = await createEnterpriseKey(10, 10);
    stopClock();
    await use(key, 6);
    await updateApiKey(id, { perMinute: 4, perDay: 7 });
    advanceClock(30_000);
    const refused = await send(LIST, { key });
    expect(refused.headers.get("Retry-After")).toBe("30");
    expect(quotaOf(refused)).toMatchObject({
      minute: { limit: 4, remaining: 0 },
      day: { limit: 7, remaining: 1 },
    });
    await expectError(refused, 429, "rate_limit_exceeded");
  });
});
