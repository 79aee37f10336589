import { expect, test } from "vitest";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { type RequestOptions, send } from "../../support/service.ts";

const LIST = "/v1/store/orders";
const ADDRESS = "198.51.100.7";

async function fail(options: RequestOptions): Promise<Response> {
  const response = await send(LIST, options);
  await response.body?.cancel();
  return response;
}

async function remaining(options: RequestOptions): Promise<number> {
  return quotaOf(await fail(options)).remaining;
}

test("an address has one budget, the Free plan's limits, for all kinds of wrong credentials together", async () => {
  const nowMs = stopClock();
  const kinds: RequestOptions[] = [
    {},
    { headers: { Authorization: "Bearer x" } },
    { headers: { Authorization: "Basic x" } },
    { key: generateSecret() },
  ];
  for (let attempt = 0; attempt < 60; attempt++) {
    const response = await fail({ ...kinds[attempt % 4], address: ADDRESS });
    expect(response.status).toBe(401);
    expect(quotaOf(response)).toStrictEqual({
      limit: 60,
      remaining: 59 - attempt,
      reset: Math.ceil((nowMs + 60_000) / 1_000),
      minute: { limit: 60, remaining: 59 - attempt, seconds: 60 },
      day: { limit: 1_000, remaining: 999 - attempt, seconds: 86_400 },
    });
  }
  advanceClock(20_000);
  for (const kind of kinds) {
    const response = await send(LIST, { ...kind, address: ADDRESS });
    expect(response.headers.has("WWW-Authenticate")).toBe(false);
    expect(response.headers.get("Retry-After")).toBe("40");
    expect(quotaOf(response)).toMatchObject({ limit: 60, remaining: 0, day: { remaining: 940 } });
    expect(await expectError(response, 429, "rate_limit_exceeded")).toContain("address");
  }
  advanceClock(40_000);
  expect((await fail({ address: ADDRESS })).status).toBe(401);
});

test("a request with a valid key is served although the budget of its address is used up", async () => {
  const { key } = await createApiKey();
  await fail({ key, address: ADDRESS });
  expect(await remaining({ address: ADDRESS })).toBe(59);
  for (let attempt = 0; attempt < 60; attempt++) await fail({ address: ADDRESS });
  const response = await send(LIST, { key, address: ADDRESS });
  expect(response.status).toBe(200);
  expect(quotaOf(response)).toMatchObject({ remaining: 58, day: { remaining: 998 } });
  expect((await fail({ address: ADDRESS })).status).toBe(429);
});
