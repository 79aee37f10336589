import { beforeEach, expect, test } from "vitest";
import { generateSecret } from "../../../src/store/keys/new-secret.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, rotate, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, HOUR_MS, stopClock } from "../../support/clock.ts";
import { faultyDatabases, LOST } from "../../support/faults.ts";
import { LIST, type RequestOptions, type Send, send, startService } from "../../support/service.ts";

/** Changes of a key take effect within this time (docs/api.md, Authentication). */
const EFFECTIVE_MS = 30_000;

const UNKNOWN_PATH = "/v1/nothing";

async function expectAccepted(service: Send, ...keys: string[]) {
  for (const key of keys) expect((await service(UNKNOWN_PATH, { key })).status).toBe(404);
}

async function expectUnauthorized(service: Send, words: string, ...keys: string[]) {
  for (const key of keys) {
    const response = await service(UNKNOWN_PATH, { key });
    expect(response.headers.get("WWW-Authenticate")).toContain('error="invalid_token"');
    expect(await expectError(response, 401, "unauthorized")).toContain(words);
  }
}

beforeEach(() => void stopClock());

test("anything but one header with one token in the form of a key is 401 without a query, and the message says why", async () => {
  const { key } = await createApiKey();
  const mistyped = key.slice(0, -1) + (key.endsWith("a") ? "b" : "a");
  const { bindings, script } = faultyDatabases("KEYS");
  for (const [hasToken, words, ...all] of [
    [false, "No API key was sent", undefined, ""],
    [false, "another scheme", "Basic eDp5", "Bearers abc", key, `\fBearer ${key}`],
    [false, "holds no API key", "Bearer"],
    [true, "mistyped", `Bearer ${mistyped}`, `Bearer ${key.toUpperCase()}`, "Bearer a=="],
    [true, "a character that no", `Bearer "${key}"`, `Bearer ${key}\v`, "Bearer a=b"],
    // The runtime joins two `Authorization` headers with a comma. An empty first one leaves no trace.
    [true, "exactly one API key", `Bearer ${key} ${key}`, `Bearer ${key}, Bearer ${key}`],
    [true, "exactly one API key", `Bearer ${key}, `, `Bearer, Bearer ${key}`],
  ] as const) {
    for (const Authorization of all) {
      const headers = { Cookie: `key=${key}`, "X-Api-Key": key, "Proxy-Authorization": key };
      const response = await startService({}, bindings)(
        // After each test, a hook checks that no log line contains a secret.
        `${LIST}/${key}?access_token=${key}&api_key=${key}&key=${key}`,
        { headers: { ...headers, ...(Authorization !== undefined && { Authorization }) } },
      );
      const challenge = `Bearer realm="store-orders"${hasToken ? ', error="invalid_token"' : ""}`;
      expect(response.headers.get("WWW-Authenticate"), Authorization).toBe(challenge);
      expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 59 });
      expect(await expectError(response, 401, "unauthorized"), Authorization).toContain(words);
    }
  }
  expect(script.calls).toBe(0);
});

test("an address has one budget, the Free plan's limits, for all kinds of wrong credentials together; a valid key is served without it", async () => {
  const { key } = await createApiKey();
  const { key: revoked } = await createApiKey({ revokedAt: new Date() });
  const malformed = { headers: { Authorization: "Basic x" } };
  const kinds = [{}, malformed, { key: revoked }, { key: generateSecret() }];
  const request = (options: RequestOptions) => send(LIST, { address: "198.51.100.7", ...options });
  for (let attempt = 0; attempt < 60; attempt++) {
    const response = await request(kinds[attempt % 4]!);
    expect(response.status).toBe(401);
    const day = { limit: 1_000, remaining: 999 - attempt };
    expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 59 - attempt, day });
  }
  advanceClock(20_000);
  for (const kind of kinds) {
    const response = await request(kind);
    expect(response.headers.has("WWW-Authenticate")).toBe(false);
    expect(response.headers.get("Retry-After")).toBe("40");
    expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 0, day: { remaining: 940 } });
    expect(await expectError(response, 429, "rate_limit_exceeded")).toContain("address");
  }
  const served = await request({ key });
  expect(served.status).toBe(200);
  expect(quotaOf(served)).toMatchObject({ remaining: 59, day: { remaining: 999 } });
  advanceClock(40_000);
  expect((await request({})).status).toBe(401);
});

test("during the grace, both secrets of a key share one budget, and a plan, an expiry and a revocation apply to both within 30 seconds", async () => {
  const { id, key: former } = await createApiKey();
  const key = await rotate(id, 110_000);
  const minute = async (secret: string) =>
    quotaOf(await send(UNKNOWN_PATH, { key: secret })).minute;
  expect([(await minute(former)).remaining, (await minute(key)).remaining]).toEqual([59, 58]);
  await updateApiKey(id, { plan: "pro" });
  advanceClock(EFFECTIVE_MS);
  expect(await minute(former)).toMatchObject({ limit: 300, remaining: 297 });
  expect(await minute(key)).toMatchObject({ limit: 300, remaining: 296 });
  await updateApiKey(id, { expiresAt: new Date(Date.now() + 60_000) });
  advanceClock(59_999);
  await expectAccepted(send, former, key);
  advanceClock(1);
  await expectUnauthorized(send, "expired", former, key);
  // A revocation takes effect even if the operator's clock is ahead, and also ends former secrets.
  await updateApiKey(id, { revokedAt: new Date(Date.now() + HOUR_MS) });
  advanceClock(EFFECTIVE_MS);
  await expectUnauthorized(send, "revoked", former, key);
});

test("a former secret ends at the exact millisecond, and with a grace of zero within 30 seconds, also in isolates that remember it, with and without the database", async () => {
  const { id, key: former } = await createApiKey();
  const key = await rotate(id, 5_000);
  const { bindings, script } = faultyDatabases("KEYS");
  const [connected, cutOff] = [startService(), startService({}, bindings)];
  for (const isolate of [connected, cutOff]) await expectAccepted(isolate, former, key);
  script.always(LOST);
  advanceClock(4_999);
  for (const isolate of [connected, cutOff]) await expectAccepted(isolate, former);
  advanceClock(1);
  for (const isolate of [connected, cutOff]) {
    await expectUnauthorized(isolate, "was replaced by a newer one", former);
    await expectAccepted(isolate, key);
  }
  const newest = await rotate(id, 0);
  await expectUnauthorized(startService(), "unknown", former, key);
  advanceClock(EFFECTIVE_MS);
  await expectUnauthorized(connected, "unknown", key);
  await expectAccepted(connected, newest);
  await expectError(await cutOff(UNKNOWN_PATH, { key }), 503, "service_unavailable");
});
