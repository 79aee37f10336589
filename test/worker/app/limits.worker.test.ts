import { expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { evictLimiter } from "../../support/limiter.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, send, startService } from "../../support/service.ts";

function times<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make);
}

async function use(key: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    expect((await send("/v1/nothing", { key })).status).toBe(404);
  }
}

test("exactly 60 of 200 simultaneous requests through four isolates are admitted, whatever another key does", async () => {
  const [{ key }, other] = [await createApiKey(), await createEnterpriseKey(5, 5)];
  const isolates = times(4, () => startService());
  const answers = isolates.flatMap((isolate) => times(50, () => isolate("/v1/nothing", { key })));
  const others = times(8, () => send("/v1/nothing", other));
  const admitted = async (responses: Promise<Response>[]) =>
    (await Promise.all(responses)).filter(({ status }) => status === 404).length;
  expect(await admitted(answers)).toBe(60);
  expect(await admitted(others)).toBe(5);
});

test("both windows end exactly their length after their first request, also after an eviction; a refused request has no effect", async () => {
  const { id, key } = await createEnterpriseKey(2, 3);
  await placeOrder(3n);
  const nowMs = stopClock();
  const endOf = (ms: number) => Math.ceil((nowMs + ms) / 1_000);
  await use(key, 1);
  advanceClock(40_000);
  await use(key, 1);
  advanceClock(19_999);
  await evictLimiter(`key:${id}`);
  const refused = await send(`${LIST}/3`, { method: "DELETE", key });
  expect(await storedOrder(3n)).toMatchObject({ status: "pending" });
  expect(refused.headers.get("Retry-After")).toBe("1");
  expect(quotaOf(refused).reset).toBe(endOf(60_000));
  expect(await expectError(refused, 429, "rate_limit_exceeded")).toContain("2 requests per minute");
  advanceClock(1);
  expect(quotaOf(await send(LIST, { key }))).toStrictEqual({
    limit: 3,
    remaining: 0,
    reset: endOf(86_400_000),
    minute: { limit: 2, remaining: 1, seconds: 60 },
    day: { limit: 3, remaining: 0, seconds: 86_340 },
  });
  const fullDay = await send(LIST, { key });
  expect(fullDay.headers.get("Retry-After")).toBe("86340");
  expect(await expectError(fullDay, 429, "rate_limit_exceeded")).toContain("3 requests per day");
  advanceClock(86_340_000 - 1);
  expect((await send(LIST, { key })).status).toBe(429);
  advanceClock(1);
  await use(key, 1);
});

test("a key whose clients keep sending refused requests is banned everywhere, until a reset", async () => {
  const { id, key } = await createEnterpriseKey(1, 100);
  stopClock();
  const isolates = times(3, () => startService());
  const codeOf = async (n: number) =>
    ((await (await isolates[n % 3]!(LIST, { key })).json()) as { code: string }).code;
  await use(key, 1);
  for (let n = 0; n < 100; n++) expect(await codeOf(n)).toBe("rate_limit_exceeded");
  advanceClock(10_000);
  let strikes = 1;
  while ((await codeOf(strikes)) !== "api_key_banned") strikes += 1;
  expect(strikes).toBeGreaterThanOrEqual(60);
  await evictLimiter(`key:${id}`);
  const isolate = startService();
  expect((await isolate(LIST, { key })).headers.get("Retry-After")).toBe("60");
  advanceClock(30_000);
  await expectError(await isolate(LIST, { key }), 429, "api_key_banned");
  await updateApiKey(id, { resets: 1 });
  const other = startService();
  expect(quotaOf(await other(LIST, { key }))).toMatchObject({
    minute: { remaining: 0, seconds: 60 },
    day: { remaining: 99, seconds: 86_400 },
  });
});
