import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { SECRET_PREFIX } from "../../../src/rules/keys/secret.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { faultyDatabases } from "../../support/faults.ts";
import { eventLines } from "../../support/written-lines.ts";
import { LIST, type RequestOptions, send, startService } from "../../support/service.ts";

test("anything but one header with one token in the form of a key is 401 without a query, and the message says why", async () => {
  const { key } = await createApiKey();
  const mistyped = key.slice(0, -1) + (key.endsWith("a") ? "b" : "a");
  const { bindings, script } = faultyDatabases("KEYS");
  for (const [credentials, hasToken, words] of [
    [null, false, "No API key was sent"],
    ["", false, "No API key was sent"],
    ["Basic dXNlcjpwYXNz", false, "another scheme"],
    ["Bearers abc", false, "another scheme"],
    ["Bearer", false, "holds no API key"],
    [key, false, "another scheme"],
    [`Bearer ${mistyped}`, true, "mistyped"],
    [`Bearer ${key.toUpperCase()}`, true, "mistyped"],
    [`Bearer ${SECRET_PREFIX}${"a".repeat(40)}`, true, "mistyped"],
    [`Bearer ${"a".repeat(60_000)}`, true, "mistyped"],
    [`Bearer "${key}"`, true, "a character that no API key has"],
    [`Bearer token=${key}`, true, "a character that no API key has"],
    [`Bearer ${key}\v`, true, "a character that no API key has"],
    [`\fBearer ${key}`, false, "another scheme"],
    [`Bearer ${key} ${key}`, true, "exactly one API key"],
    // The runtime joins two `Authorization` headers with a comma. An empty first one leaves no trace.
    [`Bearer ${key}, Bearer ${key}`, true, "exactly one API key"],
    [`Bearer ${key}, Basic ${key}`, true, "exactly one API key"],
    [`Bearer ${key}, `, true, "exactly one API key"],
    [`Bearer, Bearer ${key}`, true, "exactly one API key"],
  ] as const) {
    const headers = { Cookie: `key=${key}`, "X-Api-Key": key, "Proxy-Authorization": key };
    const response = await startService({}, bindings)(
      // After each test, a hook checks that no log line contains a key that was sent as `key`.
      `${LIST}/${key}?access_token=${key}&api_key=${key}&key=${key}`,
      { headers: credentials === null ? headers : { ...headers, Authorization: credentials } },
    );
    const challenge = `Bearer realm="store-orders"${hasToken ? ', error="invalid_token"' : ""}`;
    expect(response.headers.get("WWW-Authenticate"), words).toBe(challenge);
    expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 59 });
    const message = await expectError(response, 401, "unauthorized");
    expect(message, credentials ?? "").toContain(words);
    expect(message).not.toContain(key);
  }
  expect(script.calls).toBe(0);
});

test("a valid key is accepted after the scheme in any case, and with spaces and tabs around it", async () => {
  const { key } = await createApiKey();
  for (const scheme of ["Bearer ", "bearer ", "BEARER   ", "bEaReR\t", " \tBearer \t "]) {
    const response = await send(LIST, { headers: { Authorization: `${scheme}${key} \t` } });
    expect(response.status, scheme).toBe(200);
    expect(response.headers.has("WWW-Authenticate")).toBe(false);
  }
});

test("a key whose plan this version does not know is 500, which is logged", async () => {
  const { key } = await createApiKey();
  await env.KEYS.batch([
    env.KEYS.prepare("PRAGMA ignore_check_constraints = ON"),
    env.KEYS.prepare("UPDATE api_keys SET plan = 'team'"),
  ]);
  await expectError(await send(LIST, { key }), 500, "internal_error");
  const error = "This version does not know the plan of the key.";
  expect(eventLines()).toMatchObject([{ error }]);
});

test("an address has one budget, the Free plan's limits, for all kinds of wrong credentials together; a valid key is served without it", async () => {
  const nowMs = stopClock();
  const { key } = await createApiKey();
  const headers = { Authorization: "Bearer x" };
  const { key: revoked } = await createApiKey({ revokedAt: new Date(nowMs) });
  const kinds = [{}, { headers }, { headers: { Authorization: "Basic x" } }, { key: revoked }];
  const request = (options: RequestOptions) => send(LIST, { address: "198.51.100.7", ...options });
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
