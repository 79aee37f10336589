import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/rules/config.ts";
import { createApp } from "../../../src/worker/app.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, DAY_MS, MINUTE_MS, stopClock } from "../../support/clock.ts";
import * as faults from "../../support/faults.ts";
import { evictLimiter, limiterStorage } from "../../support/limiter.ts";
import { LIST, type Send, send, startService } from "../../support/service.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";

const QUOTA = "/v1/quota";
const UNKNOWN = "/v1/nothing";

async function look(key: string, to: Send = send) {
  const response = await to(QUOTA, { key });
  expect(response.status).toBe(200);
  const body: any = await response.json();
  const { minute, day } = quotaOf(response);
  const told = [minute, day].map(({ limit, remaining }) => ({ limit, remaining }));
  expect(body.windows, "The headers say the same.").toMatchObject(told);
  return body;
}

test("every method on every route under /v1 counts, and is refused once a window is full, but for GET and HEAD of the quota", async () => {
  const { routes } = createApp(parseConfig(env));
  const patterns = new Set(routes.map(({ path }) => path).filter((path) => path.startsWith("/v1")));
  expect([...patterns]).toEqual(expect.arrayContaining([`${LIST}/:orderId`, QUOTA]));
  const { key } = await createEnterpriseKey(1_000, 2_000);
  let left = 1_000;
  for (const pattern of patterns) {
    const path = pattern.replace(":orderId", "5").replace("*", "nothing");
    // The isolate does not yet remember a refusal of this key.
    const full = await createEnterpriseKey(1, 1);
    await send(UNKNOWN, full);
    const reads = path === QUOTA ? [] : ["GET", "HEAD"];
    for (const method of [...reads, "DELETE", "POST", "OPTIONS"]) {
      const counted = quotaOf(await send(path, { method, key }));
      expect(counted.remaining, `${method} ${path}`).toBe((left -= 1));
      expect((await send(path, { method, ...full })).status, `${method} ${path}`).toBe(429);
    }
  }
});

test("a key that keeps sending refused requests is banned at its last strike, in every isolate, until a reset, which takes effect within 30 seconds; a look succeeds, and says what the next request receives", async () => {
  const { id, key } = await createEnterpriseKey(1, 100);
  const startMs = stopClock();
  const at = (ms: number) => new Date(startMs + ms).toISOString();
  const { bindings, script } = faults.faultyDatabases("ORDERS");
  const elsewhere = startService({}, bindings);
  const refusal = async (code: string, service = send) => {
    const response = await service(LIST, { key });
    const message = await expectError(response, 429, code);
    return { ...quotaOf(response), message, retryAfter: response.headers.get("Retry-After") };
  };
  await send(UNKNOWN, { key });
  const windows = [
    { name: "minute", limit: 1, remaining: 0, resetsAt: at(MINUTE_MS) },
    { name: "day", limit: 100, remaining: 99, resetsAt: at(DAY_MS) },
  ];
  expect(await look(key)).toMatchObject({ windows, ban: null, retryAfterSeconds: 60 });
  advanceClock(1_500);
  const message =
    "This API key has used its 1 requests per minute. Wait 59 seconds before the next request.";
  expect(await refusal("rate_limit_exceeded")).toMatchObject({ message, retryAfter: "59" });
  advanceClock(29_000);
  for (let strike = 1; strike < 60; strike++) {
    await refusal("rate_limit_exceeded");
    expect((await look(key)).ban).toBeNull();
  }
  expect(await look(key, elsewhere)).toMatchObject({ windows, ban: null, retryAfterSeconds: 30 });
  const banned = { remaining: 0, day: { limit: 100, remaining: 0, seconds: 60 } };
  expect(await refusal("api_key_banned")).toMatchObject({ ...banned, retryAfter: "60" });
  advanceClock(1_000);
  await evictLimiter(`key:${id}`);
  const endsAt = at(90_500);
  const ban = { ban: { endsAt, number: 1 }, retryAfterSeconds: 59 };
  const full = windows.map((window) => ({ ...window, remaining: 0, resetsAt: endsAt }));
  for (const isolate of [send, elsewhere]) {
    expect(await look(key, isolate)).toMatchObject({ windows: full, ...ban });
    expect(await refusal("api_key_banned", isolate)).toMatchObject({ retryAfter: "59" });
  }
  advanceClock(29_000);
  const { calls } = script;
  await refusal("api_key_banned", elsewhere);
  expect(script.calls, "queries for a list that is refused from memory").toBe(calls);
  await updateApiKey(id, { resets: 1 });
  advanceClock(29_999);
  const fresh = quotaOf(await elsewhere(LIST, { key }));
  expect(fresh).toMatchObject({ remaining: 0, day: { remaining: 99, seconds: 86_400 } });
});

test("looks at once share one call, count nothing and store nothing; if the limiter cannot be reached, a look is 503, and decides nothing about other requests", async () => {
  stopClock();
  const expiresAt = new Date(Date.now() + DAY_MS);
  const { id, key } = await createApiKey({ expiresAt });
  const { bindings, script } = faults.faultyLimiters();
  const service = startService({}, bindings);
  const looks = Array.from({ length: 100 }, () => look(key, service));
  const windows = [
    { name: "minute", limit: 60, remaining: 60, resetsAt: null },
    { name: "day", limit: 1_000, remaining: 1_000, resetsAt: null },
  ];
  const about = { keyId: id, plan: "free", expiresAt: expiresAt.toISOString() };
  const untouched = { ...about, windows, ban: null, retryAfterSeconds: 0 };
  expect(await Promise.all(looks)).toStrictEqual(looks.map(() => untouched));
  expect(script.calls).toBe(1);
  const line = { route: QUOTA, keyId: id, remaining: 60, degraded: null };
  expect(requestLines()[0]).toMatchObject(line);
  const nothing = { keys: [], record: null, alarmMs: null, rowsWritten: 0 };
  expect(await limiterStorage(`key:${id}`)).toStrictEqual(nothing);
  expect(quotaOf(await service(UNKNOWN, { key })).remaining).toBe(59);
  const requestIds: unknown[] = [];
  const lost = [faults.fail("Lost.", { retryable: true }), faults.loseTheAnswer("Lost.")];
  for (const outcome of lost) {
    const { calls } = script;
    script.always(outcome);
    for (const method of ["GET", "HEAD", "GET"]) {
      advanceClock(1_000);
      const response = await service(QUOTA, { key, method });
      expect(response.headers.get("Retry-After")).toBe("1");
      if (method === "GET") await expectError(response, 503, "service_unavailable");
      expect(quotaOf(response)).toMatchObject({ limit: 1_000, remaining: 0 });
      requestIds.push(response.headers.get("X-Request-Id"));
    }
    // No failed call is repeated, and no second begins within a second.
    expect(script.calls).toBe(calls + 3);
    expect(requestLines().at(-1)).toMatchObject({ route: QUOTA, status: 503, degraded: "limiter" });
    script.always(faults.PASS);
    expect((await service(UNKNOWN, { key })).status).toBe(404);
  }
  expect((await look(key, service)).windows[1].remaining).toBe(997);
  advanceClock(10_000);
  await look(key, service);
  expect(eventLines()).toMatchObject([
    { event: "quota_unavailable", keyId: id, requestId: requestIds[0] },
    { event: "quota_available", failures: 6, seconds: 5 },
  ]);
});
