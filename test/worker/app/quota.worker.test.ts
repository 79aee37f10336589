import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, DAY_MS, HOUR_MS, MINUTE_MS, stopClock } from "../../support/clock.ts";
import { fail, faultyLimiters, loseTheAnswer, PASS } from "../../support/faults.ts";
import { evictLimiter, limiterStorage } from "../../support/limiter.ts";
import { send, type Send, startService } from "../../support/service.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";

const QUOTA = "/v1/quota";
const UNKNOWN = "/v1/nothing";

async function look(key: string, to: Send = send) {
  const response = await to(QUOTA, { key });
  expect(response.status).toBe(200);
  const body: any = await response.json();
  const { minute, day } = quotaOf(response);
  for (const [index, { limit, remaining }] of [minute, day].entries()) {
    expect(body.windows[index], "The headers say the same.").toMatchObject({ limit, remaining });
  }
  return body;
}

test("a key that looks 200 times still has all its requests, and its limiter has stored nothing", async () => {
  const expiresAt = new Date(Date.now() + DAY_MS);
  const { id, key } = await createApiKey({ expiresAt });
  for (let times = 0; times < 200; times += 1) {
    const response = await send(QUOTA, { key, method: times % 2 === 0 ? "GET" : "HEAD" });
    expect(response.headers.get("Cache-Control")).toBe("no-store");
    await response.text();
  }
  expect(await look(key)).toStrictEqual({
    keyId: id,
    plan: "free",
    expiresAt: expiresAt.toISOString(),
    windows: [
      { name: "minute", limit: 60, remaining: 60, resetsAt: null },
      { name: "day", limit: 1_000, remaining: 1_000, resetsAt: null },
    ],
    ban: null,
    retryAfterSeconds: 0,
  });
  const nothing = { keys: [], record: null, alarmMs: null, rowsWritten: 0 };
  expect(await limiterStorage(`key:${id}`)).toStrictEqual(nothing);
  expect(quotaOf(await send(UNKNOWN, { key })).remaining).toBe(59);
  const line = { route: QUOTA, keyId: id, remaining: 60, degraded: null };
  expect(requestLines()[0]).toMatchObject(line);
});

test("a look succeeds with full windows and during a ban, and says what the next request receives", async () => {
  const { id, key } = await createEnterpriseKey(1, 100);
  const elsewhere = startService();
  const startMs = stopClock();
  const at = (ms: number) => new Date(startMs + ms).toISOString();
  await send(UNKNOWN, { key });
  const full = [
    { name: "minute", limit: 1, remaining: 0, resetsAt: at(MINUTE_MS) },
    { name: "day", limit: 100, remaining: 99, resetsAt: at(DAY_MS) },
  ];
  expect(await look(key)).toMatchObject({ windows: full, ban: null, retryAfterSeconds: 60 });
  advanceClock(1_500);
  // A refusal begins the wait, during which no look is a strike.
  expect((await send(UNKNOWN, { key })).headers.get("Retry-After")).toBe("59");
  advanceClock(10_000);
  for (let strike = 1; strike < 60; strike += 1) {
    await send(UNKNOWN, { key });
    expect((await look(key)).ban).toBeNull();
  }
  expect(await look(key, elsewhere)).toMatchObject({ windows: full, retryAfterSeconds: 49 });
  await expectError(await send(UNKNOWN, { key }), 429, "api_key_banned");
  const endsAt = at(11_500 + MINUTE_MS);
  const banned = {
    windows: full.map((window) => ({ ...window, remaining: 0, resetsAt: endsAt })),
    ban: { endsAt, number: 1 },
    retryAfterSeconds: 60,
  };
  expect(await look(key)).toMatchObject(banned);
  advanceClock(1_000);
  await evictLimiter(`key:${id}`);
  for (const isolate of [send, elsewhere]) {
    expect(await look(key, isolate)).toMatchObject({ ...banned, retryAfterSeconds: 59 });
  }
  advanceClock(MINUTE_MS - 1_000);
  const over = { ban: null, retryAfterSeconds: 0 };
  expect(await look(key)).toMatchObject({ windows: [{ resetsAt: null }, full[1]], ...over });
  expect((await send(UNKNOWN, { key })).status).toBe(404);
});

test("1,000 looks at once cost one call and are equal; in a second there is one call, and no look is older than the isolate's last decision", async () => {
  const { id, key } = await createApiKey();
  const { bindings, script } = faultyLimiters();
  const service = startService({}, bindings);
  stopClock();
  const answers = await Promise.all(Array.from({ length: 1_000 }, () => look(key, service)));
  expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
  expect(script.calls).toBe(1);
  // Another isolate's request is seen after a second, this isolate's own request at once.
  await send(UNKNOWN, { key });
  advanceClock(999);
  expect((await look(key, service)).windows[0].remaining).toBe(60);
  await service(UNKNOWN, { key });
  expect((await look(key, service)).windows[0].remaining).toBe(58);
  expect(script.calls).toBe(2);
  advanceClock(1_000);
  await Promise.all(Array.from({ length: 100 }, () => look(key, service)));
  expect(script.calls).toBe(3);
  // A new version of the key is not answered from memory.
  await updateApiKey(id, { plan: "pro" });
  advanceClock(29_000);
  await service(UNKNOWN, { key });
  advanceClock(2_000);
  expect((await look(key, service)).windows[0].limit).toBe(300);
});

test("a look whose answer comes late says what the isolate was told meanwhile, as of now, and one after the clock was set back what the limiter says", async () => {
  const { key } = await createEnterpriseKey(1, 100);
  const { bindings, script } = faultyLimiters();
  const [service, elsewhere] = [startService({}, bindings), startService()];
  stopClock();
  const late = Promise.withResolvers<void>();
  script.next(async (call) => {
    const answer = await call();
    await late.promise;
    return answer;
  });
  const looking = look(key, service);
  await vi.waitFor(() => expect(script.calls).toBe(1));
  expect(quotaOf(await service(UNKNOWN, { key })).remaining).toBe(0);
  advanceClock(1_500);
  late.resolve();
  expect(await looking).toMatchObject({ windows: [{ remaining: 0 }, {}], retryAfterSeconds: 59 });
  advanceClock(-HOUR_MS);
  await elsewhere(UNKNOWN, { key });
  expect(await look(key, service)).toEqual(await look(key, elsewhere));
});

test("if the limiter cannot be reached, a look is 503, and decides nothing about other requests", async () => {
  const { id, key } = await createApiKey();
  const { bindings, script } = faultyLimiters();
  const service = startService({}, bindings);
  stopClock();
  await service(UNKNOWN, { key });
  for (const outcome of [fail("Lost.", { retryable: true }), loseTheAnswer("Lost.")]) {
    const { calls } = script;
    script.always(outcome);
    for (const method of ["GET", "HEAD", "GET"]) {
      advanceClock(1_000);
      const response = await service(QUOTA, { key, method });
      expect(response.headers.get("Retry-After")).toBe("1");
      if (method === "GET") await expectError(response, 503, "service_unavailable");
      expect(quotaOf(response)).toMatchObject({ limit: 1_000, remaining: 0 });
    }
    // No failed call is repeated, and no second begins within a second.
    expect(script.calls).toBe(calls + 3);
    expect(requestLines().at(-1)).toMatchObject({ route: QUOTA, status: 503, degraded: "limiter" });
    script.always(PASS);
    expect((await service(UNKNOWN, { key })).status).toBe(404);
  }
  expect((await look(key, service)).windows[1].remaining).toBe(997);
  expect(eventLines()).toMatchObject([{ event: "quota_unavailable", keyId: id }]);
});

test("an object of an earlier version, which cannot be looked at, is out of reach for a look", async () => {
  const { key } = await createApiKey();
  const real = env.RATE_LIMITER;
  const getByName = (name: string) => {
    const stub: any = real.getByName(name);
    const peek = (...args: unknown[]) => stub.notYet(...args);
    return { admit: (...args: unknown[]) => stub.admit(...args), peek };
  };
  const service = startService({}, { RATE_LIMITER: { getByName } as never });
  await expectError(await service(QUOTA, { key }), 503, "service_unavailable");
  expect((await service(UNKNOWN, { key })).status).toBe(404);
});

test("a look needs a valid key; another method is a counted 405, and If-Match is false", async () => {
  const { key } = await createApiKey();
  const { key: revoked } = await createApiKey({ revokedAt: new Date() });
  await expectError(await send(QUOTA, { key: revoked }), 401, "unauthorized");
  await expectError(await send(QUOTA), 401, "unauthorized");
  const post = await send(QUOTA, { key, method: "POST" });
  expect([post.headers.get("Allow"), quotaOf(post).remaining]).toEqual(["GET, HEAD", 59]);
  await expectError(post, 405, "method_not_allowed");
  const { key: pro } = await createApiKey({ plan: "pro" });
  const conditional = await send(QUOTA, { key: pro, headers: { "If-Match": '""' } });
  expect(quotaOf(conditional)).toMatchObject({ limit: 300, remaining: 300 });
  await expectError(conditional, 412, "precondition_failed");
  expect((await send(QUOTA, { key, headers: { "If-Match": "*" } })).status).toBe(200);
  await expectError(await send(`${QUOTA}/`, { key }), 404, "not_found");
});
