import { expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { placeOrder } from "../../support/order-fixture.ts";
import { LIST, send, startService } from "../../support/service.ts";

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

function corsHeaders({ headers }: Response): string[] {
  return [...headers.keys()].filter((name) => name.startsWith("access-control-"));
}

test("an OPTIONS request without a valid key is counted, unless it is an allowed preflight", async () => {
  for (const [vars, headers] of [
    [VARS, { ...PREFLIGHT, Origin: "https://other.example" }],
    [{}, PREFLIGHT],
    [{}, { "Access-Control-Request-Method": "DELETE" }],
    [{}, { Origin: APP }],
    [{}, { ...PREFLIGHT, Authorization: "Bearer x" }],
    [VARS, { Origin: APP }],
  ] as const) {
    const response = await startService(vars)(LIST, { method: "OPTIONS", headers });
    expect(quotaOf(response).remaining).toBe(59);
    await expectError(response, 401, "unauthorized");
  }
});

test("a listed origin may read every response", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  const service = startService(VARS);
  for (const [origin, options] of [
    ["http://localhost:5173", { key }],
    [APP, { key, method: "DELETE" }],
    [APP, { key, method: "DELETE" }],
    [APP, {}],
  ] as const) {
    const { headers } = await service(`${LIST}/1`, { ...options, headers: { Origin: origin } });
    expect(headers.get("Access-Control-Allow-Origin")).toBe(origin);
    expect(headers.get("Vary")).toContain("Origin");
    expect(headers.has("Access-Control-Allow-Credentials")).toBe(false);
    expect(headers.get("Access-Control-Expose-Headers")).toBe(EXPOSED);
  }
});

test("a preflight needs no key, is not counted, and calls no Durable Object and no database", async () => {
  const untouchable = <T extends object>(): T =>
    new Proxy({} as T, {
      get: () => {
        throw new Error("A binding was used.");
      },
    });
  const bindings = { ORDERS: untouchable<D1Database>(), KEYS: untouchable<D1Database>() };
  const service = startService(VARS, { ...bindings, RATE_LIMITER: untouchable() });
  for (let times = 0; times < 2; times += 1) {
    const response = await service(`${LIST}/1`, { method: "OPTIONS", headers: PREFLIGHT });
    expect(quotaOf(response)).toMatchObject({ remaining: 60, day: { remaining: 1_000 } });
    expect(response.status).toBe(204);
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe(APP);
    expect(response.headers.get("Access-Control-Allow-Methods")).toBe("GET,HEAD,DELETE");
    const allowed = response.headers.get("Access-Control-Allow-Headers")?.toLowerCase();
    expect(allowed).toBe("authorization,if-match,if-none-match,x-request-id");
    expect(await response.text()).toBe("");
  }
});

test("an origin that is not listed gets the same response as a request without an Origin header", async () => {
  const { key } = await createApiKey();
  const listing = startService(VARS);
  const others = ["https://app.example.evil.example", "https://sub.app.example", "null", "*"];
  others.push("http://app.example", "https://app.example:8443", "https://APP.example");
  const requests = [...others.map((Origin) => [listing, Origin] as const), [send, APP] as const];
  for (const [service, Origin] of requests) {
    expect(corsHeaders(await service(LIST, { key, headers: { Origin } }))).toStrictEqual([]);
    const headers = { ...PREFLIGHT, Origin };
    const preflight = await service(LIST, { method: "OPTIONS", headers });
    expect(corsHeaders(preflight)).toStrictEqual([]);
    await expectError(preflight, 401, "unauthorized");
  }
});
