import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import * as deadlines from "../../../src/worker/deadline.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import * as faults from "../../support/faults.ts";
import { limiterStorage } from "../../support/limiter.ts";
import { startService } from "../../support/service.ts";
import { eventLines, requestLines } from "../../support/written-lines.ts";

const HEALTH = "/healthz";
const ALL_OK = { orders: "ok", keys: "ok", limiter: "ok" };

test("a health check needs no key, counts neither against a key nor an address, is not recorded, and stores nothing; another method is 405", async () => {
  const { key } = await createApiKey();
  const address = "192.0.2.7";
  const { bindings, script } = faults.faultyLimiters();
  const service = startService({}, bindings);
  const checks = Array.from({ length: 5 }, () => service(HEALTH, { key, address }));
  const [response] = await Promise.all(checks);
  expect([response!.status, await response!.json()]).toStrictEqual([200, ALL_OK]);
  expect(response!.headers.get("Cache-Control")).toBe("no-store");
  const { id } = env.VERSION;
  const head = await service(HEALTH, { method: "HEAD", headers: { "X-Version": id } });
  expect([head.status, head.headers.get("X-Version"), await head.text()]).toEqual([200, id, ""]);
  const post = await service(HEALTH, { method: "POST" });
  expect(post.headers.get("Allow")).toBe("GET, HEAD");
  await expectError(post, 405, "method_not_allowed");
  expect(script.calls).toBe(1);
  expect(requestLines()).toStrictEqual([]);
  for (const options of [{ key, address }, { address }]) {
    expect(quotaOf(await service("/v1/nothing", options)).remaining).toBe(59);
  }
  const nothing = { keys: [], record: null, alarmMs: null, rowsWritten: 0 };
  expect(await limiterStorage("health")).toStrictEqual(nothing);
});

/** Makes a call that takes two seconds to a database without this table. */
const without =
  (name: "ORDERS" | "KEYS", table: string): faults.Outcome =>
  async (call) => {
    advanceClock(2_000);
    await env[name].exec(`ALTER TABLE ${table} RENAME TO lost`);
    try {
      return await call();
    } finally {
      await env[name].exec(`ALTER TABLE lost RENAME TO ${table}`);
    }
  };

test.each([
  ["orders", () => faults.faultyDatabases("ORDERS"), without("ORDERS", "order_list")],
  ["keys", () => faults.faultyDatabases("KEYS"), without("KEYS", "api_keys")],
  ["keys", () => faults.faultyDatabases("KEYS"), faults.HANG],
  ["limiter", faults.faultyLimiters, faults.HANG],
] as const)("503 names %s if it fails; a result is used for 5 s", async (part, fault, outcome) => {
  const { bindings, script } = fault();
  stopClock();
  script.onHang = faults.skipDeadlines(3_000);
  const service = startService({}, bindings);
  const health = async () => {
    const response = await service(HEALTH, { headers: { "X-Request-Id": "monitor" } });
    return [response.status, await response.json(), script.calls];
  };
  script.always(outcome);
  for (const passedMs of [0, 1, 4_998]) {
    advanceClock(passedMs);
    expect(await health()).toStrictEqual([503, { ...ALL_OK, [part]: "unavailable" }, 1]);
  }
  const event = { event: "health_probe_failed", part, requestId: "monitor" };
  expect(eventLines()).toMatchObject([event]);
  script.always(faults.PASS);
  advanceClock(1);
  expect(await health()).toStrictEqual([200, ALL_OK, 2]);
  script.always(outcome);
  expect(await health()).toStrictEqual([200, ALL_OK, 2]);
  // If the clock was set back, the age of the result is unknown.
  advanceClock(-1);
  expect((await health())[0]).toBe(503);
  const timeouts = vi.mocked(deadlines.withDeadline).mock.calls.map(([, ms]) => ms);
  expect(timeouts).toStrictEqual(Array(9).fill(3_000));
});
