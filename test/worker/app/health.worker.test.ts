import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import * as faults from "../../support/faults.ts";
import { admit, limiterStorage } from "../../support/limiter.ts";
import { send, startService } from "../../support/service.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";

const { faultyDatabases, faultyLimiters, HANG, LOST, PASS } = faults;

const HEALTH = "/healthz";
const ALL_OK = { orders: "ok", keys: "ok", limiter: "ok" };

test("GET and HEAD /healthz answer 200 without a key; other methods and paths are 404", async () => {
  const response = await send(HEALTH);
  expect([response.status, await response.json()]).toStrictEqual([200, ALL_OK]);
  expect(Object.fromEntries(response.headers)).toStrictEqual({
    "cache-control": "no-store",
    "content-type": "application/json",
    link: '</openapi.json>; rel="service-desc", </>; rel="service-doc"',
    "x-request-id": expect.any(String),
  });
  const { id } = env.VERSION;
  const head = await send(HEALTH, { method: "HEAD", headers: { "X-Version": id } });
  expect([head.status, head.headers.get("X-Version")]).toStrictEqual([200, id]);
  expect(await head.text()).toBe("");
  await expectError(await send(HEALTH, { method: "POST" }), 404, "not_found");
  await expectError(await send(`${HEALTH}/`), 404, "not_found");
});

test("a health check counts neither against a key nor an address, is not recorded, and stores nothing", async () => {
  const { key } = await createApiKey();
  const address = "192.0.2.7";
  const { bindings, script } = faultyLimiters();
  const service = startService({}, bindings);
  await Promise.all(Array.from({ length: 5 }, () => service(HEALTH, { key, address })));
  expect(script.calls).toBe(1);
  expect(requestLines()).toStrictEqual([]);
  expect(quotaOf(await service("/v1/nothing", { key, address })).remaining).toBe(59);
  expect(quotaOf(await service("/v1/nothing", { address })).remaining).toBe(59);
  const nothing = { keys: [], record: null, alarmMs: null, rowsWritten: 0 };
  expect(await limiterStorage("health")).toStrictEqual(nothing);
  await runInDurableObject(env.RATE_LIMITER.getByName("health"), async (object) => {
    await expect(admit(object, {} as never)).rejects.toThrow("limits no API key");
  });
});

test("503 names the part that does not respond; a result is used for 5 seconds", async () => {
  for (const [part, { bindings, script }] of Object.entries({
    orders: faultyDatabases("ORDERS"),
    keys: faultyDatabases("KEYS"),
    limiter: faultyLimiters(),
  })) {
    stopClock();
    const service = startService({}, bindings);
    const health = async () => {
      const response = await service(HEALTH);
      return [response.status, await response.json(), script.calls];
    };
    script.always(LOST);
    for (const passedMs of [0, 1, 4_998]) {
      advanceClock(passedMs);
      expect(await health()).toStrictEqual([503, { ...ALL_OK, [part]: "unavailable" }, 1]);
    }
    const error = "D1_ERROR: Network connection lost.";
    expect(eventLines().at(-1)).toMatchObject({ event: "health_probe_failed", part, error });
    script.always(PASS);
    advanceClock(1);
    expect(await health()).toStrictEqual([200, ALL_OK, 2]);
    script.always(LOST);
    expect(await health()).toStrictEqual([200, ALL_OK, 2]);
    advanceClock(-1);
    expect((await health())[0]).toBe(503);
  }
  expect(eventLines()).toHaveLength(6);
});

test("503 if a part does not respond within three seconds, or a database lacks its tables", async () => {
  const expire = faults.stopDeadlines(3_000);
  const { bindings, script } = faultyDatabases("ORDERS");
  const limiters = faultyLimiters();
  for (const one of [script, limiters.script]) one.next(HANG).onHang = expire;
  await env.KEYS.exec("ALTER TABLE api_keys RENAME TO moved");
  const response = await startService({}, { ...bindings, ...limiters.bindings })(HEALTH);
  const health = { orders: "unavailable", keys: "unavailable", limiter: "unavailable" };
  expect([response.status, await response.json()]).toStrictEqual([503, health]);
  const deadlines = vi.mocked(setTimeout).mock.calls.filter(([, ms]) => ms === 3_000);
  expect(deadlines).toHaveLength(3);
});
