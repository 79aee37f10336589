import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, type MockInstance, test, vi } from "vitest";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import {
  databaseLine,
  failingDatabase,
  unreachableDatabase,
} from "../../support/database-double.ts";
import { failingLimiters } from "../../support/limiter.ts";
import { placeOrder, storedOrder } from "../../support/order-fixture.ts";
import { send, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";
const hangs = () => new Promise<never>(() => undefined);
const breaks = () =>
  Promise.reject(new Error("Durable Object reset because its code was updated."));

let log: MockInstance<typeof console.warn>;

beforeEach(() => {
  log = vi.spyOn(console, "warn").mockReturnValue();
});

describe.each([
  ["break", breaks],
  ["hang", hangs],
])("while the Durable Objects %s", (_, outcome) => {
  const withoutLimiters = () =>
    startService({ LIMITER_TIMEOUT_MS: "20" }, { RATE_LIMITER: failingLimiters(outcome) });

  test("the fallback limiter applies the limit and sends the rate-limit headers", async () => {
    const { key } = await createEnterpriseKey(3, 10);
    await placeOrder(1n);
    stopClock();
    const service = withoutLimiters();
    for (const remaining of [2, 1, 0]) {
      const response = await service(LIST, { key });
      expect(await response.text()).toBe('[{"id":1}]');
      expect(quotaOf(response)).toMatchObject({ remaining, day: { remaining: remaining + 7 } });
    }
    const refused = await service(LIST, { key });
    expect(refused.headers.get("Retry-After")).toBe("60");
    expect(quotaOf(refused)).toMatchObject({ limit: 3, remaining: 0 });
    await expectError(refused, 429, "rate_limit_exceeded");
    advanceClock(60_000);
    expect((await service(LIST, { key })).status).toBe(200);
    expect(JSON.stringify(log.mock.calls)).toContain("insurance_limiter");
    expect(JSON.stringify(log.mock.calls)).not.toContain(key);
  });

  test("the budget of the address still applies", async () => {
    const service = withoutLimiters();
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 61; attempt++) {
      const response = await service(LIST);
      expect(quotaOf(response).remaining).toBe(Math.max(0, 59 - attempt));
      statuses.push(response.status);
    }
    expect(statuses.slice(58)).toStrictEqual([401, 401, 429]);
  });

  test("and the keys database fails too, a 503 still has the rate-limit headers", async () => {
    const service = startService(
      { LIMITER_TIMEOUT_MS: "20" },
      { RATE_LIMITER: failingLimiters(outcome), KEYS: unreachableDatabase() },
    );
    const response = await service(LIST, { key: generateSecret() });
    expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 60 });
    await expectError(response, 503, "service_unavailable");
  });
});

describe("a limiter that fails", () => {
  /**
   * Returns Durable Objects whose first `failures` calls fail with `error`. Later calls reach the
   * real Durable Objects.
   */
  function flakyLimiters(failures: number, error: Error) {
    let calls = 0;
    const limiters = {
      getByName: (name: string) => ({
        admit: (policy: never) =>
          ++calls <= failures
            ? Promise.reject(error)
            : env.RATE_LIMITER.getByName(name).admit(policy),
      }),
    } as unknown as Cloudflare.Env["RATE_LIMITER"];
    return { limiters, calls: () => calls };
  }

  test("is called again if the failure may be temporary", async () => {
    const { key } = await createApiKey();
    const { limiters, calls } = flakyLimiters(
      1,
      Object.assign(new Error("lost"), { retryable: true }),
    );
    const response = await startService({}, { RATE_LIMITER: limiters })(LIST, { key });
    expect(response.status).toBe(200);
    expect(calls()).toBe(2);
    expect(log).not.toHaveBeenCalled();
    expect(quotaOf(await send(LIST, { key })).remaining).toBe(58);
  });

  test.each([
    ["is not temporary", {}, 200],
    ["is an overload", { retryable: true, overloaded: true }, 503],
  ])("is not called again if the failure %s", async (_, marks, status) => {
    const { key } = await createApiKey();
    const { limiters, calls } = flakyLimiters(1, Object.assign(new Error("lost"), marks));
    const response = await startService({}, { RATE_LIMITER: limiters })(LIST, { key });
    expect(response.status).toBe(status);
    expect(calls()).toBe(1);
    expect(quotaOf(await send(LIST, { key })).remaining).toBe(59);
  });
});

describe("while a database does not respond", () => {
  test.each([
    ["cannot be reached", unreachableDatabase],
    ["hangs", () => failingDatabase(hangs)],
    [
      "is locked for too long",
      () =>
        failingDatabase(() =>
          Promise.reject(new Error("D1_ERROR: database is locked: SQLITE_BUSY")),
        ),
    ],
  ])(
    "because it %s, a request with a valid key receives 503 and never 401",
    async (_, database) => {
      const { key } = await createApiKey();
      const service = startService({ DATABASE_TIMEOUT_MS: "100" }, { KEYS: database() });
      const response = await service(LIST, { key });
      expect(response.headers.get("Retry-After")).toBe("5");
      expect(response.headers.has("WWW-Authenticate")).toBe(false);
      expect(response.headers.get("X-Request-Id")).toMatch(/^[0-9a-f-]{36}$/);
      quotaOf(response);
      await expectError(response, 503, "service_unavailable");
    },
  );

  test("a request without a key still receives 401", async () => {
    const response = await startService({}, { KEYS: unreachableDatabase() })(LIST);
    await expectError(response, 401, "unauthorized");
  });

  test.each([
    ["GET", LIST],
    ["HEAD", LIST],
    ["DELETE", `${LIST}/1`],
  ])("%s with a remembered key receives 503 and counts against the key", async (method, path) => {
    const { key } = await createApiKey();
    await placeOrder(1n);
    const line = databaseLine(env.ORDERS);
    const service = startService({}, { ORDERS: line.database });
    await service("/v1/nothing", { key });
    line.isCut = true;
    const response = await service(path, { method, key });
    expect(response.headers.get("Retry-After")).toBe("5");
    expect(quotaOf(response)).toMatchObject({ remaining: 58, day: { remaining: 998 } });
    if (method === "HEAD") expect(response.status).toBe(503);
    else await expectError(response, 503, "service_unavailable");
    expect(await storedOrder(1n)).toMatchObject({ status: "pending" });
    line.isCut = false;
    expect((await service(path, { method, key })).ok).toBe(true);
  });
});

test("a request over the limit receives 429 whether the database responds or not", async () => {
  const { key } = await createEnterpriseKey(1, 10);
  const line = databaseLine(env.ORDERS);
  const service = startService({}, { ORDERS: line.database });
  await service("/v1/nothing", { key });
  line.isCut = true;
  for (let n = 0; n < 3; n++) {
    await expectError(await service(LIST, { key }), 429, "rate_limit_exceeded");
  }
  expect(log).not.toHaveBeenCalled();
});

test("a query is retried while the database is busy", async () => {
  const { key } = await createApiKey();
  await placeOrder(1n);
  let refusals = 3;
  const busy = new Proxy(env.ORDERS, {
    get(target, name) {
      if (name !== "batch") return Reflect.get(target, name).bind(target);
      return (statements: D1PreparedStatement[]) =>
        refusals-- > 0
          ? Promise.reject(new Error("D1_ERROR: database is locked: SQLITE_BUSY"))
          : target.batch(statements);
    },
  });
  const response = await startService({}, { ORDERS: busy })(`${LIST}/1`, { method: "DELETE", key });
  expect(response.status).toBe(204);
  expect(refusals).toBe(-1);
});
