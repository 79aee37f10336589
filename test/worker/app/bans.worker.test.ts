import { sql } from "drizzle-orm";
import { expect, test } from "vitest";
import { apiKeys } from "../../../src/schema/keys.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createEnterpriseKey, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { evictLimiter } from "../../support/limiter.ts";
import { send, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";

async function codeOf(response: Response): Promise<string> {
  return response.status === 429 ? JSON.parse(await response.text()).code : String(response.status);
}

/**
 * Sends requests without moving the clock. Returns the error codes or statuses of the responses, in
 * order.
 */
async function hammer(key: string, count: number): Promise<string[]> {
  const codes: string[] = [];
  for (let n = 0; n < count; n++) codes.push(await codeOf(await send(LIST, { key })));
  return codes;
}

/**
 * Sends requests until the key is banned. The key must have a limit of one request per minute and
 * no open minute window.
 */
async function bringIntoBan(key: string): Promise<void> {
  expect(await hammer(key, 2)).toStrictEqual(["200", "rate_limit_exceeded"]);
  advanceClock(10_000);
  expect((await hammer(key, 60)).at(-1)).toBe("api_key_banned");
}

test("the request with the last strike is the first to receive api_key_banned", async () => {
  const { key } = await createEnterpriseKey(1, 100);
  stopClock();
  await hammer(key, 1);
  expect(new Set(await hammer(key, 100))).toStrictEqual(new Set(["rate_limit_exceeded"]));
  advanceClock(9_999);
  expect(new Set(await hammer(key, 100))).toStrictEqual(new Set(["rate_limit_exceeded"]));
  advanceClock(1);
  const codes = await hammer(key, 62);
  expect(codes.indexOf("api_key_banned")).toBe(59);
  expect(codes.slice(59)).toStrictEqual(Array(3).fill("api_key_banned"));
});

test("requests during a ban neither lengthen the ban nor count", async () => {
  const { key } = await createEnterpriseKey(1, 100);
  stopClock();
  await bringIntoBan(key);
  advanceClock(59_999);
  expect(new Set(await hammer(key, 50))).toStrictEqual(new Set(["api_key_banned"]));
  const response = await send(LIST, { key });
  expect(response.headers.get("Retry-After")).toBe("1");
  advanceClock(1);
  const admitted = await send(LIST, { key });
  expect(admitted.status).toBe(200);
  expect(quotaOf(admitted).day.remaining).toBe(98);
});

test("Retry-After during a ban extends to the end of a full window that ends after the ban", async () => {
  const { key } = await createEnterpriseKey(1, 1);
  const nowMs = stopClock();
  await bringIntoBan(key);
  const response = await send(LIST, { key });
  expect(response.headers.get("Retry-After")).toBe("86390");
  expect(quotaOf(response)).toMatchObject({
    remaining: 0,
    reset: Math.ceil((nowMs + 86_400_000) / 1_000),
    minute: { remaining: 0, seconds: 86_390 },
    day: { remaining: 0, seconds: 86_390 },
  });
  await expectError(response, 429, "api_key_banned");
});

test("the second ban lasts twice as long, even if the Durable Object was evicted in between", async () => {
  const { id, key } = await createEnterpriseKey(1, 100);
  stopClock();
  await bringIntoBan(key);
  await evictLimiter(`key:${id}`);
  for (const isolate of [send, startService()]) {
    const banned = await isolate(LIST, { key });
    expect(banned.headers.get("Retry-After")).toBe("60");
    await expectError(banned, 429, "api_key_banned");
  }
  advanceClock(60_000);
  await evictLimiter(`key:${id}`);
  await bringIntoBan(key);
  expect((await send(LIST, { key })).headers.get("Retry-After")).toBe("120");
});

test("strikes in several isolates add up to a ban", async () => {
  const { key } = await createEnterpriseKey(1, 100);
  stopClock();
  await hammer(key, 2);
  advanceClock(10_000);
  const isolates = [startService(), startService(), startService()];
  for (let round = 0; round < 60; round++) {
    for (const isolate of isolates) await isolate(LIST, { key });
  }
  await expectError(await startService()(LIST, { key }), 429, "api_key_banned");
});

test("a day after the end of a ban, the next ban is as short as a first ban", async () => {
  const { key } = await createEnterpriseKey(1, 100);
  stopClock();
  await bringIntoBan(key);
  advanceClock(60_000 + 86_400_000);
  await bringIntoBan(key);
  expect((await send(LIST, { key })).headers.get("Retry-After")).toBe("60");
});

test("a reset lifts the ban within 30 seconds, empties the windows and forgets earlier bans", async () => {
  const { id, key } = await createEnterpriseKey(1, 100);
  stopClock();
  await bringIntoBan(key);
  advanceClock(60_000);
  await bringIntoBan(key);
  await updateApiKey(id, { resets: sql`${apiKeys.resets} + 1` as unknown as number });
  advanceClock(30_000);
  const admitted = await send(LIST, { key });
  expect(admitted.status).toBe(200);
  expect(quotaOf(admitted)).toMatchObject({
    minute: { remaining: 0, seconds: 60 },
    day: { remaining: 99, seconds: 86_400 },
  });
  advanceClock(60_000);
  await bringIntoBan(key);
  expect((await send(LIST, { key })).headers.get("Retry-After")).toBe("60");
});
