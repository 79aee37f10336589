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

function mistyped(key: string): string {
  const last = key.at(-1) === "a" ? "b" : "a";
  return key.slice(0, -1) + last;
}

describe("credentials without a bearer token", () => {
  test.each([
    ["no header", {}],
    ["an empty header", { Authorization: "" }],
    ["another scheme", { Authorization: "Basic dXNlcjpwYXNz" }],
    ["a scheme that begins with Bearer", { Authorization: "Bearers abc" }],
    ["a scheme alone", { Authorization: "Bearer" }],
  ] as const)("%s", async (_, headers) => {
    await expectUnauthorized(await send(LIST, { headers }), PLAIN_CHALLENGE);
  });

  test("a valid key without the scheme, or anywhere else", async () => {
    const { key } = await createApiKey();
    for (const headers of [
      { Authorization: key },
      { Cookie: `access_token=${key}`, "X-Api-Key": key, "Proxy-Authorization": key },
    ]) {
      const path = `${LIST}?access_token=${key}&api_key=${key}&key=${key}`;
      const response = await startService()(path, { headers });
      expect(await expectUnauthorized(response, PLAIN_CHALLENGE)).not.toContain(key);
    }
  });
});

describe("a token that is not a secret is refused without a query", () => {
  test.each<[string, (key: string) => string]>([
    ["a mistyped key", (key) => `Bearer ${mistyped(key)}`],
    ["a key in quotation marks", (key) => `Bearer "${key}"`],
    ["a key as a parameter", (key) => `Bearer token=${key}`],
    ["a key twice", (key) => `Bearer ${key} ${key}`],
    ["an invented key", () => `Bearer ${SECRET_PREFIX}${"a".repeat(40)}`],
    ["a very long token", () => `Bearer ${"a".repeat(60_000)}`],
  ])("%s", async (_, authorization) => {
    const { key } = await createApiKey();
    const line = databaseLine(env.KEYS);
    const response = await startService({}, { KEYS: line.database })(LIST, {
      headers: { Authorization: authorization(key) },
    });
    const message = await expectUnauthorized(response, TOKEN_CHALLENGE);
    expect(message).not.toContain(key);
    expect(message.length).toBeLessThan(300);
    expect(line.statements).toStrictEqual([]);
  });

  test.each(["Bearer", "Basic"])("two headers, the second with the scheme %s", async (scheme) => {
    const { key } = await createApiKey();
    const headers = new Headers();
    headers.append("Authorization", `Bearer ${key}`);
    headers.append("Authorization", `${scheme} ${key}`);
    await expectUnauthorized(await send(LIST, { headers }), TOKEN_CHALLENGE);
  });
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

describe("a valid key", () => {
  test.each(["Bearer ", "bearer ", "BEARER ", "bEaReR ", "Bearer   "])(
    "after %j",
    async (scheme) => {
      const { key } = await createApiKey();
      const response = await send(LIST, { headers: { Authorization: `${scheme}${key}` } });
      expect(response.status).toBe(200);
      expect(response.headers.has("WWW-Authenticate")).toBe(false);
    },
  );

  test("is stored only as its SHA-256", async () => {
    const { key } = await createApiKey();
    await send(LIST, { key });
    const { results } = await env.KEYS.prepare("SELECT * FROM api_keys").all();
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key));
    const hash = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0"));
    expect(results).toMatchObject([{ hash: hash.join("") }]);
    expect(JSON.stringify(results)).not.toContain(key.slice(SECRET_PREFIX.length));
  });
});
