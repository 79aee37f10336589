import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { BatchedQuery } from "../../../src/worker/db/batched-query.ts";
import { PROBE_TIMEOUT_MS } from "../../../src/worker/routes/health.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { admit, limiterStorage } from "../../support/limiter.ts";
import { placeOrder } from "../../support/order-fixture.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { LIST, send, startService } from "../../support/service.ts";
import {
  faultyDatabases,
  faultyLimiters,
  HANG,
  LOST,
  PASS,
  stopDeadlines,
} from "../../support/faults.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";

const HEALTH = "/healthz";
const ALL_OK = { orders: "ok", keys: "ok", limiter: "ok" };

describe("GET /healthz", () => {
  test("returns 200 without a key if every part of the service is available", async () => {
    const response = await send(HEALTH);
    expect([response.status, await response.json()]).toStrictEqual([200, ALL_OK]);
    expect(Object.fromEntries(response.headers)).toStrictEqual({
      "cache-control": "no-store",
      "content-type": "application/json",
      link: '</openapi.json>; rel="service-desc", </>; rel="service-doc"',
      "x-request-id": expect.any(String),
    });
  });

  test("like every response, confirms the id of its version only to a caller that sends this id", async () => {
    for (const path of [HEALTH, LIST, "/none"]) {
      const confirmation = async (version: string) =>
        (await send(path, { headers: { "X-Version": version } })).headers.get("X-Version");
      expect(env.VERSION.id).toMatch(/\S/);
      expect(await confirmation(env.VERSION.id), path).toBe(env.VERSION.id);
      for (const other of ["another", ""]) expect(await confirmation(other), path).toBeNull();
    }
  });

  test("supports HEAD without a body, and no other method or path", async () => {
    const head = await send(HEALTH, { method: "HEAD" });
    expect([head.status, await head.text()]).toStrictEqual([200, ""]);
    await expectError(await send(HEALTH, { method: "POST" }), 404, "not_found");
    await expectError(await send(`${HEALTH}/`), 404, "not_found");
  });

  test("counts neither against a key nor against an address, and is not recorded", async () => {
    const { key } = await createApiKey();
    const address = "192.0.2.7";
    await send(HEALTH, { key, address });
    expect(requestLines()).toStrictEqual([]);
    expect(quotaOf(await send("/v1/nothing", { key, address })).remaining).toBe(59);
    expect(quotaOf(await send("/v1/nothing", { address })).remaining).toBe(59);
  });

  test("calls a dedicated Durable Object, which stores nothing and sets no alarm", async () => {
    const { bindings, script, places } = faultyLimiters();
    const service = startService({}, bindings);
    await Promise.all(Array.from({ length: 5 }, () => service(HEALTH)));
    expect([script.calls, places.length]).toStrictEqual([1, 1]);
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
  ])("returns 503 while %s does not respond", async (part, faulty) => {
    stopClock();
    const { bindings, script } = faulty();
    const service = startService({}, bindings);
    script.always(LOST);
    for (const passedMs of [0, 1, 4_998]) {
      advanceClock(passedMs);
      const response = await service(HEALTH);
      expect(response.headers.get("Cache-Control")).toBe("no-store");
      const health = { ...ALL_OK, [part]: "unavailable" };
      expect([response.status, await response.json()]).toStrictEqual([503, health]);
    }
    expect(script.calls).toBe(1);
    const error = "D1_ERROR: Network connection lost.";
    expect(eventLines()).toMatchObject([{ event: "health_probe_failed", part, error }]);
    script.always(PASS);
    advanceClock(1);
    expect((await service(HEALTH)).status).toBe(200);
    script.always(LOST);
    expect((await service(HEALTH)).status).toBe(200);
    advanceClock(-1);
    expect((await service(HEALTH)).status).toBe(503);
  });

  test("returns 503 if the Durable Object does not respond in time", async () => {
    const { bindings, script } = faultyLimiters();
    script.next(HANG).onHang = stopDeadlines(PROBE_TIMEOUT_MS);
    const response = await startService({}, bindings)(HEALTH);
    expect(await response.json()).toStrictEqual({ ...ALL_OK, limiter: "unavailable" });
  });

  test("queries a database that other requests do not query, and takes the place of no probe", async () => {
    stopClock();
    const expire = stopDeadlines(PROBE_TIMEOUT_MS);
    const { key } = await createApiKey();
    await placeOrder(7n);
    const { bindings, script } = faultyDatabases("ORDERS");
    const vars = { DATABASE_TIMEOUT_MS: String(PROBE_TIMEOUT_MS) };
    const service = startService(vars, bindings);
    const cancel = () => service("/v1/store/orders/7", { key, method: "DELETE" });
    script.next(HANG).onHang = expire;
    await expectError(await cancel(), 503, "service_unavailable");
    expect((await service(HEALTH)).status).toBe(200);
    advanceClock(5_000);
    script.next(HANG).onHang = () => undefined;
    const check = service(HEALTH);
    await vi.waitUntil(() => script.calls === 3, { interval: 1 });
    expect((await cancel()).status).toBe(204);
    expire();
    expect((await check).status).toBe(503);
    expect((await cancel()).status).toBe(404);
  });

  test("returns 503 if the request that ran the shared probe was ended, and 200 to the next request", async () => {
    vi.spyOn(BatchedQuery.prototype, "read").mockRejectedValueOnce(new Error("late"));
    const response = await send(HEALTH);
    const nothing = { orders: "unavailable", keys: "unavailable", limiter: "unavailable" };
    expect([response.status, await response.json()]).toStrictEqual([503, nothing]);
    expect((await send(HEALTH)).status).toBe(200);
  });

  test("returns 503 if a database lacks its tables", async () => {
    await env.ORDERS.exec("ALTER TABLE order_list RENAME TO moved");
    const response = await send(HEALTH);
    expect(await response.json()).toStrictEqual({ ...ALL_OK, orders: "unavailable" });
    expect(eventLines()).toMatchObject([{ event: "health_probe_failed", part: "orders" }]);
  });
});
