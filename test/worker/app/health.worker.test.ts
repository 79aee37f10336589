import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import { PROBE_TIMEOUT_MS } from "../../../src/worker/routes/health.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import {
  faultyDatabases,
  faultyLimiters,
  HANG,
  LOST,
  PASS,
  stopDeadlines,
} from "../../support/faults.ts";
import { admit, limiterStorage } from "../../support/limiter.ts";
import { LIST, send, startService } from "../../support/service.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";

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
  const head = await send(HEALTH, { method: "HEAD" });
  expect([head.status, await head.text()]).toStrictEqual([200, ""]);
  await expectError(await send(HEALTH, { method: "POST" }), 404, "not_found");
  await expectError(await send(`${HEALTH}/`), 404, "not_found");
});

test("every response confirms the id of its version, only to a caller that sends this id", async () => {
  expect(env.VERSION.id).toMatch(/\S/);
  for (const path of [HEALTH, LIST, "/none"]) {
    for (const version of [env.VERSION.id, "another", ""]) {
      const { headers } = await send(path, { headers: { "X-Version": version } });
      const confirmed = version === env.VERSION.id ? version : null;
      expect(headers.get("X-Version"), path).toBe(confirmed);
    }
  }
});

test("a health check counts neither against a key nor an address, is not recorded, and stores nothing", async () => {
  const { key } = await createApiKey();
  const address = "192.0.2.7";
  const { bindings, script, places } = faultyLimiters();
  const service = startService({}, bindings);
  await Promise.all(Array.from({ length: 5 }, () => service(HEALTH, { key, address })));
  expect([script.calls, places.length]).toStrictEqual([1, 1]);
  expect(requestLines()).toStrictEqual([]);
  expect(quotaOf(await service("/v1/nothing", { key, address })).remaining).toBe(59);
  expect(quotaOf(await service("/v1/nothing", { address })).remaining).toBe(59);
  const nothing = { keys: [], record: null, alarmMs: null, rowsWritten: 0 };
  expect(await limiterStorage("health")).toStrictEqual(nothing);
  await runInDurableObject(env.RATE_LIMITER.getByName("health"), async (object) => {
    await expect(admit(object, {} as never)).rejects.toThrow("limits no API key");
  });
});

test.each([
  ["orders", () => faultyDatabases("ORDERS")],
  ["keys", () => faultyDatabases("KEYS")],
  ["limiter", faultyLimiters],
])(
  "503 names %s while it does not respond; a result is used for 5 seconds",
  async (part, faulty) => {
    stopClock();
    const { bindings, script } = faulty();
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
    expect(eventLines()).toMatchObject([{ event: "health_probe_failed", part, error }]);
    script.always(PASS);
    advanceClock(1);
    expect(await health()).toStrictEqual([200, ALL_OK, 2]);
    script.always(LOST);
    expect(await health()).toStrictEqual([200, ALL_OK, 2]);
    advanceClock(-1);
    expect((await health())[0]).toBe(503);
  },
);

test("503 if the Durable Object does not respond in time, or a database lacks its tables", async () => {
  const { bindings, script } = faultyLimiters();
  script.next(HANG).onHang = stopDeadlines(PROBE_TIMEOUT_MS);
  await env.ORDERS.exec("ALTER TABLE order_list RENAME TO moved");
  const response = await startService({}, bindings)(HEALTH);
  const health = { orders: "unavailable", keys: "ok", limiter: "unavailable" };
  expect([response.status, await response.json()]).toStrictEqual([503, health]);
});

test("a probe is sent while other queries pause after a timeout, and ends no pause", async () => {
  stopClock();
  const expire = stopDeadlines(PROBE_TIMEOUT_MS);
  const { key } = await createApiKey();
  const { bindings, script } = faultyDatabases("ORDERS");
  const service = startService({ DATABASE_TIMEOUT_MS: String(PROBE_TIMEOUT_MS) }, bindings);
  const cancel = () => service(`${LIST}/7`, { key, method: "DELETE" });
  script.next(HANG).onHang = expire;
  expect((await cancel()).status).toBe(503);
  expect((await service(HEALTH)).status).toBe(200);
  advanceClock(5_000);
  script.next(HANG).onHang = () => undefined;
  const check = service(HEALTH);
  await vi.waitUntil(() => script.calls === 3, { interval: 1 });
  expect((await cancel()).status).toBe(404);
  expire();
  expect((await check).status).toBe(503);
});
