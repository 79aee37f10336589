import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { SECRET_PREFIX } from "../../../src/worker/api-keys/secret.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { databaseLine } from "../../support/database-double.ts";
import { send, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";
const PLAIN_CHALLENGE = 'Bearer realm="store-orders"';
const TOKEN_CHALLENGE = 'Bearer realm="store-orders", error="invalid_token"';

/**
 * Expects a 401 response, and that the request counted against the limit of failed authentications
 * for its client address. Returns the error message.
 */
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
    const path = `${LIST}?access_token=${key}&api_key=${key}&key=${key}`;
    const response = await startService()(path, { headers });
    expect(await expectUnauthorized(response, PLAIN_CHALLENGE)).not.toContain(key);
  }
});

test("a token that is not a secret is refused without a query", async () => {
  const { key } = await createApiKey();
  const mistyped = key.slice(0, -1) + (key.endsWith("a") ? "b" : "a");
  const line = databaseLine(env.KEYS);
  for (const credentials of [
    mistyped,
    `"${key}"`,
    `token=${key}`,
    `${key} ${key}`,
    SECRET_PREFIX + "a".repeat(40),
    "a".repeat(60_000),
    // Two headers arrive joined by a comma.
    `${key}, Bearer ${key}`,
    `${key}, Basic ${key}`,
  ]) {
    const response = await startService({}, { KEYS: line.database })(LIST, {
      headers: { Authorization: `Bearer ${credentials}` },
    });
    const message = await expectUnauthorized(response, TOKEN_CHALLENGE);
    expect(message).not.toContain(key);
    expect(message.length).toBeLessThan(300);
  }
  expect(line.statements).toStrictEqual([]);
});

describe("a well-formed key that is not valid", () => {
  test("an unknown key", async () => {
    const response = await send(LIST, { key: generateSecret() });
    expect(await expectUnauthorized(response, TOKEN_CHALLENGE)).toContain("unknown");
  });

  test("an expired key, exactly from the millisecond of its expiry", async () => {
    const nowMs = stopClock();
    const { key } = await createApiKey({ expiresAt: new Date(nowMs + 5_000) });
    advanceClock(4_999);
    expect((await send(LIST, { key })).status).toBe(200);
    advanceClock(1);
    const response = await send(LIST, { key });
    expect(await expectUnauthorized(response, TOKEN_CHALLENGE)).toContain("expired");
  });

  test("a revoked key, even if it has also expired", async () => {
    const past = new Date(Date.now() - 1_000);
    const { key } = await createApiKey({ revokedAt: past, expiresAt: past });
    const response = await send(LIST, { key });
    expect(await expectUnauthorized(response, TOKEN_CHALLENGE)).toContain("revoked");
  });
});

test("a valid key is accepted after the scheme in any case", async () => {
  const { key } = await createApiKey();
  for (const scheme of ["Bearer ", "bearer ", "BEARER ", "bEaReR ", "Bearer   "]) {
    const response = await send(LIST, { headers: { Authorization: `${scheme}${key}` } });
    expect(response.status, scheme).toBe(200);
    expect(response.headers.has("WWW-Authenticate")).toBe(false);
  }
});

test("a key is stored only as its SHA-256", async () => {
  const { key } = await createApiKey();
  await send(LIST, { key });
  const { results } = await env.KEYS.prepare("SELECT * FROM api_keys").all();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key));
  const hash = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0"));
  expect(results).toMatchObject([{ hash: hash.join("") }]);
  expect(JSON.stringify(results)).not.toContain(key.slice(SECRET_PREFIX.length));
});
