import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/rules/config.ts";
import { createApp } from "../../../src/worker/app.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { evictLimiter } from "../../support/limiter.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, send, startService } from "../../support/service.ts";

const UNKNOWN = "/v1/nothing";

test("exactly 60 of 200 simultaneous requests through four isolates are admitted, whatever another key does", async () => {
  const [{ key }, other] = [await createApiKey(), await createEnterpriseKey(5, 5)];
  const isolates = Array.from({ length: 4 }, () => startService());
  const requests = Array.from({ length: 200 }, (_, n) => isolates[n % 4]!(UNKNOWN, { key }));
  const others = Array.from({ length: 8 }, () => send(UNKNOWN, other));
  for (const [all, admitted] of [
    [requests, 60],
    [others, 5],
  ] as const) {
    const statuses = (await Promise.all(all)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 404)).toHaveLength(admitted);
  }
});

test("every method on every route under /v1 counts, and is refused once a window is full, but for GET and HEAD of the quota", async () => {
  const { routes } = createApp(parseConfig(env));
  const patterns = new Set(routes.map(({ path }) => path).filter((path) => path.startsWith("/v1")));
  expect([...patterns]).toEqual(expect.arrayContaining([`${LIST}/:orderId`, "/v1/quota"]));
  const { key } = await createEnterpriseKey(1_000, 2_000);
  let left = 1_000;
  for (const pattern of patterns) {
    const path = pattern.replace(":orderId", "5").replace("*", "nothing");
    // The isolate does not yet remember a refusal of this key.
    const full = await createEnterpriseKey(1, 1);
    await send(UNKNOWN, full);
    const reads = path === "/v1/quota" ? [] : ["GET", "HEAD"];
    for (const method of [...reads, "DELETE", "POST", "OPTIONS"]) {
      const counted = quotaOf(await send(path, { method, key }));
      expect(counted.remaining, `${method} ${path}`).toBe((left -= 1));
      expect((await send(path, { method, ...full })).status, `${method} ${path}`).toBe(429);
    }
  }
});

test("both windows end exactly their length after their first request, also after an eviction; a refused request has no effect", async () => {
  const { id, key } = await createEnterpriseKey(2, 3);
  await placeOrder(3n);
  const nowMs = stopClock();
  const endOf = (ms: number) => Math.ceil((nowMs + ms) / 1_000);
  const status = async () => (await send(UNKNOWN, { key })).status;
  const expectFull = async (response: Response, seconds: number, words: string) => {
    expect(response.headers.get("Retry-After")).toBe(String(seconds));
    expect(await expectError(response, 429, "rate_limit_exceeded")).toContain(words);
  };
  expect(await status()).toBe(404);
  advanceClock(40_000);
  expect(await status()).toBe(404);
  advanceClock(19_999);
  await evictLimiter(`key:${id}`);
  const refused = await send(`${LIST}/3`, { method: "DELETE", key });
  expect(await storedOrder(3n)).toMatchObject({ status: "pending" });
  expect(quotaOf(refused).reset).toBe(endOf(60_000));
  await expectFull(refused, 1, "2 requests per minute. Wait 1 second b");
  advanceClock(1);
  expect(quotaOf(await send(LIST, { key }))).toStrictEqual({
    limit: 3,
    remaining: 0,
    reset: endOf(86_400_000),
    minute: { limit: 2, remaining: 1, seconds: 60 },
    day: { limit: 3, remaining: 0, seconds: 86_340 },
  });
  await expectFull(await send(LIST, { key }), 86_340, "3 requests per day. Wait 86340 seconds");
  advanceClock(86_340_000 - 1);
  expect(await status()).toBe(429);
  advanceClock(1);
  expect(await status()).toBe(404);
});

test("a key that keeps sending refused requests is banned at its last strike, in every isolate, until a reset, which takes effect within 30 seconds", async () => {
  const { id, key } = await createEnterpriseKey(1, 100);
  const nowMs = stopClock();
  const elsewhere = startService();
  const refusal = async (code: string, service = send) => {
    const response = await service(LIST, { key });
    await expectError(response, 429, code);
    return { ...quotaOf(response), retryAfter: response.headers.get("Retry-After") };
  };
  await send(UNKNOWN, { key });
  advanceClock(1_500);
  // Refusals of the first ten seconds are no strikes.
  for (let n = 0; n < 100; n++) {
    const full = { limit: 1, remaining: 0, minute: { seconds: 59 }, day: { remaining: 99 } };
    expect(await refusal("rate_limit_exceeded")).toMatchObject({ ...full, retryAfter: "59" });
  }
  advanceClock(29_000);
  for (let strike = 1; strike < 60; strike++) await refusal("rate_limit_exceeded");
  const banned = {
    limit: 1,
    remaining: 0,
    reset: Math.ceil((nowMs + 90_500) / 1_000),
    retryAfter: "60",
    minute: { limit: 1, remaining: 0, seconds: 60 },
    day: { limit: 100, remaining: 0, seconds: 60 },
  };
  expect(await refusal("api_key_banned")).toStrictEqual(banned);
  await evictLimiter(`key:${id}`);
  expect(await refusal("api_key_banned", elsewhere)).toStrictEqual(banned);
  advanceClock(30_000);
  await refusal("api_key_banned", elsewhere);
  await updateApiKey(id, { resets: 1 });
  advanceClock(29_999);
  const fresh = quotaOf(await elsewhere(LIST, { key }));
  expect(fresh).toMatchObject({ remaining: 0, day: { remaining: 99, seconds: 86_400 } });
});
