import { expect, test } from "vitest";
import { quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { LIST, startService } from "../../support/service.ts";

const APP = "https://app.example";
const VARS = { CORS_ORIGINS: `${APP}, http://localhost:5173` };
const PREFLIGHT = {
  Origin: APP,
  "Access-Control-Request-Method": "DELETE",
  "Access-Control-Request-Headers": "authorization",
};

const corsOf = ({ headers }: Response) =>
  Object.fromEntries([...headers].filter(([name]) => /^(access-control-.*|vary)$/.test(name)));

test("a listed origin may read every response, with every header", async () => {
  const { key } = await createApiKey();
  const service = startService(VARS);
  for (const [Origin, credentials] of [
    ["http://localhost:5173", { key }],
    [APP, {}],
  ] as const) {
    expect(corsOf(await service(LIST, { ...credentials, headers: { Origin } }))).toStrictEqual({
      "access-control-allow-origin": Origin,
      "access-control-expose-headers":
        "X-RateLimit-Limit,X-RateLimit-Remaining,X-RateLimit-Reset,RateLimit-Policy,RateLimit,Retry-After," +
        "Allow,ETag,Link,WWW-Authenticate,X-Request-Id,Deprecation,Sunset,Strict-Transport-Security",
      vary: "Origin",
    });
  }
});

test("a preflight of a listed origin needs no key, is not counted, and calls no Durable Object and no database", async () => {
  const untouchable = new Proxy({} as never, { get: () => expect.fail("A binding was used.") });
  const bindings = { ORDERS: untouchable, KEYS: untouchable, RATE_LIMITER: untouchable };
  const service = startService(VARS, bindings);
  for (let times = 0; times < 2; times += 1) {
    const response = await service(`${LIST}/1`, { method: "OPTIONS", headers: PREFLIGHT });
    expect(quotaOf(response)).toMatchObject({ remaining: 60, day: { remaining: 1_000 } });
    expect([response.status, await response.text()]).toStrictEqual([204, ""]);
    expect(corsOf(response)).toMatchObject({
      "access-control-allow-origin": APP,
      "access-control-allow-methods": "GET,HEAD,DELETE",
      "access-control-max-age": "86400",
      "access-control-allow-headers": "Authorization,If-Match,If-None-Match,X-Request-Id",
    });
  }
});

test.each<[vars: Record<string, string>, method: string, headers: Record<string, string>]>([
  [{}, "OPTIONS", PREFLIGHT],
  [{}, "GET", { Origin: APP }],
  [VARS, "OPTIONS", { ...PREFLIGHT, Origin: "https://app.example.evil.example" }],
  [VARS, "GET", { Origin: "null" }],
  [VARS, "GET", { Origin: `${APP}:8443` }],
  // Without `Access-Control-Request-Method`, this is no preflight.
  [VARS, "OPTIONS", { Origin: APP }],
])("with %j, %s needs a key, is counted and has no CORS headers: %j", async (...request) => {
  const [vars, method, headers] = request;
  const response = await startService(vars)(LIST, { method, headers });
  expect([response.status, quotaOf(response).remaining]).toStrictEqual([401, 59]);
  expect(corsOf(response)).toStrictEqual({});
});
