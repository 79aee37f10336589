import { describe, expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { placeOrder } from "../../support/order-fixture.ts";
import { send, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";
const APP = "https://app.example";
const PREFLIGHT = {
  Origin: APP,
  "Access-Control-Request-Method": "DELETE",
  "Access-Control-Request-Headers": "authorization",
};

function corsHeaders({ headers }: Response): string[] {
  return [...headers.keys()].filter((name) => name.startsWith("access-control-"));
}

/** Starts a service that the origins `APP` and `http://localhost:5173` may call. */
const startCorsService = () => startService({ CORS_ORIGINS: `${APP}, http://localhost:5173` });

describe("by default", () => {
  test("no origin is allowed", async () => {
    const { key } = await createApiKey();
    const response = await send(LIST, { key, headers: { Origin: APP } });
    expect(response.status).toBe(200);
    expect(corsHeaders(response)).toStrictEqual([]);
  });

  test("a preflight is refused, and is not counted", async () => {
    for (let attempt = 0; attempt < 3; attempt++) {
      const response = await send(LIST, { method: "OPTIONS", headers: PREFLIGHT });
      expect(corsHeaders(response)).toStrictEqual([]);
      expect(quotaOf(response)).toMatchObject({ remaining: 60, day: { remaining: 1_000 } });
      await expectError(response, 401, "unauthorized");
    }
  });

  test.each([
    ["without an origin", { "Access-Control-Request-Method": "DELETE" }],
    ["without a requested method", { Origin: APP }],
    ["with credentials", { ...PREFLIGHT, Authorization: "Bearer x" }],
  ])("an OPTIONS request %s is not a preflight", async (_, headers) => {
    const response = await send(LIST, { method: "OPTIONS", headers });
    expect(quotaOf(response).remaining).toBe(59);
    await expectError(response, 401, "unauthorized");
  });
});

describe("a listed origin", () => {
  test.each([APP, "http://localhost:5173"])("%s may read the response", async (origin) => {
    const { key } = await createApiKey();
    const response = await startCorsService()(LIST, { key, headers: { Origin: origin } });
    expect(response.status).toBe(200);
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe(origin);
    expect(response.headers.get("Vary")).toContain("Origin");
    expect(response.headers.has("Access-Control-Allow-Credentials")).toBe(false);
    expect(response.headers.get("Access-Control-Expose-Headers")?.split(",")).toStrictEqual([
      "X-RateLimit-Limit",
      "X-RateLimit-Remaining",
      "X-RateLimit-Reset",
      "RateLimit-Policy",
      "RateLimit",
      "Retry-After",
      "Allow",
      "ETag",
      "Link",
      "WWW-Authenticate",
      "X-Request-Id",
      "Deprecation",
      "Sunset",
    ]);
    expect(quotaOf(response).remaining).toBe(59);
    expect(response.headers.has("X-Request-Id")).toBe(true);
  });

  test("may read responses of every status", async () => {
    const service = startCorsService();
    const { key } = await createApiKey();
    await placeOrder(1n);
    const answers = [
      await service(LIST, { headers: { Origin: APP } }),
      await service("/v1/nothing", { key, headers: { Origin: APP } }),
      await service(LIST, { method: "POST", key, headers: { Origin: APP } }),
      await service(`${LIST}/1`, { method: "DELETE", key, headers: { Origin: APP } }),
      await service(LIST, { key, headers: { Origin: APP, "If-None-Match": "*" } }),
    ];
    expect(answers.map(({ status }) => status)).toStrictEqual([401, 404, 405, 204, 304]);
    for (const answer of answers) {
      expect(answer.headers.get("Access-Control-Allow-Origin")).toBe(APP);
      expect(answer.headers.get("Access-Control-Expose-Headers")).toContain("X-RateLimit-Limit");
    }
  });

  test("can send preflights without a key, which are not counted", async () => {
    const service = startCorsService();
    for (let attempt = 0; attempt < 3; attempt++) {
      const response = await service(`${LIST}/1`, { method: "OPTIONS", headers: PREFLIGHT });
      expect(response.status).toBe(204);
      expect(response.headers.get("Access-Control-Allow-Origin")).toBe(APP);
      expect(response.headers.get("Access-Control-Allow-Methods")).toBe("GET,HEAD,DELETE");
      const allowed = response.headers.get("Access-Control-Allow-Headers")?.toLowerCase();
      expect(allowed?.split(",")).toEqual(
        expect.arrayContaining(["authorization", "if-none-match"]),
      );
      expect(quotaOf(response)).toMatchObject({ remaining: 60, day: { remaining: 1_000 } });
      expect(await response.text()).toBe("");
    }
  });

  test("needs a key for an OPTIONS request that is not a preflight", async () => {
    const response = await startCorsService()(LIST, {
      method: "OPTIONS",
      headers: { Origin: APP },
    });
    expect(quotaOf(response).remaining).toBe(59);
    await expectError(response, 401, "unauthorized");
  });
});

test("a preflight calls no Durable Object and no database, whether its origin is listed or not", async () => {
  const touched: string[] = [];
  const untouchable = <T extends object>(name: string): T =>
    new Proxy({} as T, {
      get: () => {
        touched.push(name);
        throw new Error(`${name} was used`);
      },
    });
  const service = startService(
    { CORS_ORIGINS: APP },
    {
      ORDERS: untouchable("ORDERS"),
      KEYS: untouchable("KEYS"),
      RATE_LIMITER: untouchable("RATE_LIMITER"),
    },
  );
  for (const Origin of [APP, "https://other.example"]) {
    const response = await service(LIST, { method: "OPTIONS", headers: { ...PREFLIGHT, Origin } });
    expect(response.status).toBe(Origin === APP ? 204 : 401);
    expect(quotaOf(response).remaining).toBe(60);
  }
  expect(touched).toStrictEqual([]);
});

describe("an origin that is not listed", () => {
  test.each([
    "https://app.example.evil.example",
    "https://sub.app.example",
    "http://app.example",
    "https://app.example:8443",
    "https://APP.example",
    "null",
    "*",
  ])("%s gets the same response as a request without an Origin header", async (origin) => {
    const { key } = await createApiKey();
    const service = startCorsService();
    const response = await service(LIST, { key, headers: { Origin: origin } });
    expect(response.status).toBe(200);
    expect(corsHeaders(response)).toStrictEqual([]);
    const preflight = await service(LIST, {
      method: "OPTIONS",
      headers: { ...PREFLIGHT, Origin: origin },
    });
    expect(corsHeaders(preflight)).toStrictEqual([]);
    await expectError(preflight, 401, "unauthorized");
  });
});
