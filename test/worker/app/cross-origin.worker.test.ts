import { expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { LIST, startService } from "../../support/service.ts";

const APP = "https://app.example";
const VARS = { CORS_ORIGINS: `${APP}, http://localhost:5173` };
const PREFLIGHT = {
  Origin: APP,
  "Access-Control-Request-Method": "DELETE",
  "Access-Control-Request-Headers": "authorization",
};
const EXPOSED =
  "X-RateLimit-Limit,X-RateLimit-Remaining,X-RateLimit-Reset,RateLimit-Policy,RateLimit,Retry-After," +
  "Allow,ETag,Link,WWW-Authenticate,X-Request-Id,Deprecation,Sunset";

test("a listed origin may read every response, with every header", async () => {
  const { key } = await createApiKey();
  const service = startService(VARS);
  for (const [Origin, options] of [
    ["http://localhost:5173", { key }],
    [APP, { key, method: "DELETE" }],
    [APP, {}],
  ] as const) {
    const { headers } = await service(LIST, { ...options, headers: { Origin } });
    expect(headers.get("Access-Control-Allow-Origin")).toBe(Origin);
    expect(headers.get("Vary")).toContain("Origin");
    expect(headers.has("Access-Control-Allow-Credentials")).toBe(false);
    expect(headers.get("Access-Control-Expose-Headers")).toBe(EXPOSED);
  }
});

test("a preflight of a listed origin needs no key, is not counted, and calls no Durable Object and no database", async () => {
  const get = () => expect.fail("A binding was used.");
  const untouchable = new Proxy({} as never, { get });
  const bindings = { ORDERS: untouchable, KEYS: untouchable, RATE_LIMITER: untouchable };
  const service = startService(VARS, bindings);
  for (let times = 0; times < 2; times += 1) {
    const response = await service(`${LIST}/1`, { method: "OPTIONS", headers: PREFLIGHT });
    expect(quotaOf(response)).toMatchObject({ remaining: 60, day: { remaining: 1_000 } });
    expect([response.status, await response.text()]).toStrictEqual([204, ""]);
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe(APP);
    expect(response.headers.get("Access-Control-Allow-Methods")).toBe("GET,HEAD,DELETE");
    expect(response.headers.get("Access-Control-Max-Age")).toBe("86400");
    const allowed = response.headers.get("Access-Control-Allow-Headers")?.toLowerCase();
    expect(allowed).toBe("authorization,if-match,if-none-match,x-request-id");
  }
});

test("any other OPTIONS request needs a key and is counted, and another origin is like none", async () => {
  const { key } = await createApiKey();
  const others = `${APP}.evil.example https://sub.app.example null * http://app.example ${APP}:8443 https://APP.example`;
  for (const Origin of [APP, ...others.split(" ")]) {
    const service = startService(Origin === APP ? {} : VARS);
    const headers = { ...PREFLIGHT, Origin };
    const response = await service(LIST, { method: "OPTIONS", headers });
    expect(quotaOf(response).remaining).toBe(59);
    await expectError(response, 401, "unauthorized");
    const list = await service(LIST, { key, headers: { Origin } });
    for (const name of [...response.headers.keys(), ...list.headers.keys()]) {
      expect(name).not.toMatch(/^access-control-/);
    }
  }
  const response = await startService(VARS)(LIST, { method: "OPTIONS", headers: { Origin: APP } });
  expect(quotaOf(response).remaining).toBe(59);
  await expectError(response, 401, "unauthorized");
});
