import { env } from "cloudflare:workers";
import { HonoRequest } from "hono/request";
import { expect, type MockInstance, test, vi } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { SECRET_PREFIX } from "../../../src/rules/keys/secret.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { faultyDatabases } from "../../support/faults.ts";
import { eventLines } from "../../support/written-lines.ts";
import { LIST, type RequestOptions, send, startService } from "../../support/service.ts";

const PLAIN_CHALLENGE = 'Bearer realm="store-orders"';
const TOKEN_CHALLENGE = 'Bearer realm="store-orders", error="invalid_token"';

/** Expects a 401 that was counted against the client's address. Returns the error message. */
async function expectUnauthorized(response: Response, challenge: string): Promise<string> {
  expect(response.headers.get("WWW-Authenticate")).toBe(challenge);
  expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 59 });
  return expectError(response, 401, "unauthorized");
}

test("credentials without a bearer token", async () => {
  const { key } = await createApiKey();
  for (const headers of [
    {},
    { Authorization: "" },
    { Authorization: "Basic dXNlcjpwYXNz" },
    { Authorization: "Bearers abc" },
    { Authorization: "Bearer" },
    { Authorization: key },
    { Cookie: `access_token=${key}`, "X-Api-Key": key, "Proxy-Authorization": key },
  ]) {
    const path = `${LIST}/${key}?access_token=${key}&api_key=${key}&key=${key}`;
    // After each test, a hook checks that no log line contains `key`.
    const response = await startService()(path, { headers });
    expect(await expectUnauthorized(response, PLAIN_CHALLENGE)).not.toContain(key);
  }
});

test("a token that is not a secret is refused without a query", async () => {
  const { key } = await createApiKey();
  const mistyped = key.slice(0, -1) + (key.endsWith("a") ? "b" : "a");
  const { bindings, script } = faultyDatabases("KEYS");
  const twice = "exactly one API key";
  for (const [Authorization, expected] of [
    [`Bearer ${mistyped}`, "mistyped"],
    [`Bearer "${key}"`, "a character that no API key has"],
    [`Bearer token=${key}`, "a character that no API key has"],
    [`Bearer ${SECRET_PREFIX}${"a".repeat(40)}`, "mistyped"],
    [`Bearer ${"a".repeat(60_000)}`, "mistyped"],
    [`Bearer ${key} ${key}`, twice],
    // The runtime joins two `Authorization` headers with a comma. An empty first one leaves no trace.
    [`Bearer ${key}, Bearer ${key}`, twice],
    [`Bearer ${key}, Basic ${key}`, twice],
    [`Bearer ${key}, `, twice],
    [`Bearer, Bearer ${key}`, twice],
  ] as const) {
    const response = await startService({}, bindings)(LIST, { headers: { Authorization } });
    const message = await expectUnauthorized(response, TOKEN_CHALLENGE);
    expect(message).toContain(expected);
    expect(message).not.toContain(key);
    expect(message.length).toBeLessThan(300);
  }
  expect(script.calls).toBe(0);
});

test("a key expires exactly at the millisecond of its expiry", async () => {
  const nowMs = stopClock();
  const { key } = await createApiKey({ expiresAt: new Date(nowMs + 5_000) });
  advanceClock(4_999);
  expect((await send(LIST, { key })).status).toBe(200);
  advanceClock(1);
  const response = await send(LIST, { key });
  expect(await expectUnauthorized(response, TOKEN_CHALLENGE)).toContain("expired");
});

test("a valid key is accepted after the scheme in any case", async () => {
  const { key } = await createApiKey();
  for (const scheme of [
    "Bearer ",
    "bearer ",
    "BEARER ",
    "bEaReR ",
    "Bearer   ",
    "Bearer\t",
    " \tBearer \t ",
  ]) {
    const response = await send(LIST, { headers: { Authorization: `${scheme}${key}` } });
    expect(response.status, scheme).toBe(200);
    expect(response.headers.has("WWW-Authenticate")).toBe(false);
  }
});

test.each([
  ["a byte order mark before it", "\u{feff}", ""],
  ["a no-break space after it", "", "\u{a0}"],
  ["an ideographic space after it", "", "\u{3000}"],
  ["a zero-width space after it", "", "\u{200b}"],
  ["quotation marks around it", '"', '"'],
])("a key with %s is refused with a message about the character", async (_, before, after) => {
  const { key } = await createApiKey();
  // A `Request` in JavaScript takes no such characters without a warning.
  const header = vi.spyOn(HonoRequest.prototype, "header") as MockInstance<
    (name: string) => unknown
  >;
  header.mockImplementation((name) =>
    name === "Authorization" ? `Bearer ${before}${key}${after}` : undefined,
  );
  const response = await send(LIST);
  const message = await expectError(response, 401, "unauthorized");
  expect(message).toContain("a character that no API key has");
});

test("a revoked key is refused whatever the time of its revocation", async () => {
  const { key } = await createApiKey({ revokedAt: new Date(Date.now() + 300_000) });
  const message = await expectUnauthorized(await send(LIST, { key }), TOKEN_CHALLENGE);
  expect(message).toContain("revoked");
});

test("a key whose plan this version does not know is 500, which is logged", async () => {
  const { key } = await createApiKey();
  await env.KEYS.batch([
    env.KEYS.prepare("PRAGMA ignore_check_constraints = ON"),
    env.KEYS.prepare("UPDATE api_keys SET plan = 'team'"),
  ]);
  await expectError(await send(LIST, { key }), 500, "internal_error");
  expect(eventLines()).toMatchObject([
    { error: "This version does not know the plan of the key." },
  ]);
});

const ADDRESS = "198.51.100.7";

test("an address has one budget, the Free plan's limits, for all kinds of wrong credentials together; a valid key is served without it", async () => {
  const nowMs = stopClock();
  const { key } = await createApiKey();
  const headers = { Authorization: "Bearer x" };
  const { key: revoked } = await createApiKey({ revokedAt: new Date(nowMs) });
  const kinds = [{}, { headers }, { headers: { Authorization: "Basic x" } }, { key: revoked }];
  const request = (options: RequestOptions) => send(LIST, { address: ADDRESS, ...options });
  for (let attempt = 0; attempt < 60; attempt++) {
    const response = await request(kinds[attempt % 5] ?? { key: generateSecret() });
    expect(response.status).toBe(401);
    const day = { limit: 1_000, remaining: 999 - attempt };
    expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 59 - attempt, day });
  }
  advanceClock(20_000);
  for (const kind of [...kinds, { key: generateSecret() }]) {
    const response = await request(kind);
    expect(response.headers.has("WWW-Authenticate")).toBe(false);
    expect(response.headers.get("Retry-After")).toBe("40");
    expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 0, day: { remaining: 940 } });
    expect(await expectError(response, 429, "rate_limit_exceeded")).toContain("address");
  }
  const served = await request({ key });
  expect(served.status).toBe(200);
  expect(quotaOf(served)).toMatchObject({ remaining: 59, day: { remaining: 999 } });
  expect((await request({})).status).toBe(429);
  advanceClock(40_000);
  expect((await request({})).status).toBe(401);
});
