import { expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, MINUTE_MS, stopClock } from "../../support/clock.ts";
import { faultyDatabases } from "../../support/faults.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { LIST, type RequestOptions, startService } from "../../support/service.ts";
import { eventLines } from "../../support/written-lines.ts";

const address = "192.0.2.44";
const named = { "X-Request-Id": "in-clear" };
const CLEAR = { origin: "http://orders.shop.example", address, headers: named };
const APP = "https://app.example";
const UNTOUCHED = { limit: 60, remaining: 60, day: { remaining: 1_000 } };
const PREFLIGHT = { Origin: APP, "Access-Control-Request-Method": "DELETE" };

test("a request over plain HTTP is refused with any key or none, counts nothing and does nothing, but outside /v1", async () => {
  const { id, key } = await createApiKey();
  const second = await createApiKey();
  const { key: unknown } = await createApiKey();
  await placeOrder(7n);
  const { bindings, script } = faultyDatabases("KEYS");
  stopClock();
  const service = startService({ CORS_ORIGINS: APP }, bindings);
  for (const known of [key, second.key]) await service("/v1/nothing", { key: known });
  const { calls } = script;
  const bodies = new Set<string>();
  const refused: RequestOptions[] = [
    { ...CLEAR, key },
    { ...CLEAR, key: unknown },
    { ...CLEAR, key: second.key },
    CLEAR,
    { ...CLEAR, origin: "http://localhost.shop.example", key },
    { ...CLEAR, origin: "http://127.0.0.1.shop.example", key },
    { address, headers: { "CF-Visitor": '{"scheme":"http"}' } },
  ];
  for (const options of refused) {
    for (const method of ["GET", "DELETE", "OPTIONS"]) {
      const headers = { ...options.headers, ...(method === "OPTIONS" && PREFLIGHT) };
      const response = await service(`${LIST}/7`, { ...options, method, headers });
      expect(quotaOf(response)).toMatchObject(UNTOUCHED);
      expect(response.headers.has("Strict-Transport-Security")).toBe(false);
      expect(response.headers.has("WWW-Authenticate")).toBe(false);
      bodies.add(await expectError(response, 403, "https_required"));
    }
  }
  expect(bodies.size).toBe(1);
  expect(script.calls).toBe(calls);
  expect((await service("/healthz", CLEAR)).status).toBe(200);
  expect(await storedOrder(7n)).toMatchObject({ status: "pending" });
  expect(quotaOf(await service("/v1/nothing", { key })).remaining).toBe(58);
  // Only of keys that the isolate knows from memory, and of each once a minute.
  const eventOf = (keyId: string) => ({ event: "key_sent_in_clear", keyId, requestId: "in-clear" });
  const logged = [eventOf(id), eventOf(second.id)];
  for (const [passedMs, ...again] of [[MINUTE_MS - 1], [1, eventOf(id)]] as const) {
    advanceClock(passedMs);
    for (const _ of [1, 2]) await service(LIST, { ...CLEAR, key });
    logged.push(...again);
    expect(eventLines()).toMatchObject(logged);
  }
});

test.each([
  [{}, { origin: "http://localhost.:8787" }, null],
  [{}, { origin: "http://shop.localhost" }, null],
  [{}, { origin: "http://127.8.9.1:1" }, null],
  [{}, { origin: "http://[::1]:8787" }, null],
  [{ ALLOW_HTTP: "true" }, CLEAR, null],
  [{}, { headers: { "CF-Visitor": '{"scheme":"https"}' } }, "max-age=31536000"],
])("with %j, %j is served, with HSTS only over HTTPS: %s", async (vars, options, hsts) => {
  const { key } = await createApiKey();
  const response = await startService(vars)(LIST, { ...options, key });
  expect([response.status, await response.text()]).toStrictEqual([200, "[]"]);
  expect(response.headers.get("Strict-Transport-Security")).toBe(hsts);
});
