import { expect, expectTypeOf, test, vi } from "vitest";
import type { KeyQuota } from "../../src/client/quota.ts";
import { quotaHeaders } from "../../src/rules/limits/headers.ts";
import { peek } from "../../src/rules/limits/decision.ts";
import { type QuotaReport, reportQuota } from "../../src/rules/limits/quota-report.ts";
import { keyPolicy, SimulatedLimiter, START_MS } from "../rules/limits/simulated-limiter.ts";
import { clientOf, ScriptedService } from "./scripted-service.ts";

// The client declares its own type. `npm run typecheck` fails if the service reports another one.
expectTypeOf<QuotaReport>().toExtend<Pick<KeyQuota, keyof QuotaReport>>();

test("quota() has numbers, and dates by the client's clock, which are never early and at most a second late", async () => {
  vi.useFakeTimers({ now: START_MS });
  const limiter = new SimulatedLimiter(keyPolicy(1, 100));
  const service = new ScriptedService(({ url }) => {
    limiter.nowMs = Date.now() + 3_600_123;
    if (!url.endsWith("/v1/quota")) {
      return new Response(null, { status: 204, headers: quotaHeaders(limiter.request()) });
    }
    const quota = peek(limiter.state, limiter.policy, limiter.bans, limiter.nowMs);
    const expiresAt = limiter.state === null ? null : "2030-01-01T00:00:00.000Z";
    const body = { keyId: "key_a", plan: "pro", expiresAt, ...reportQuota(quota) };
    return Response.json(body, { headers: quotaHeaders(quota) });
  });
  const client = clientOf(service);
  const unopened = { name: "minute", limit: 1, remaining: 1, resetsAt: null };
  expect(await client.quota()).toMatchObject({
    keyId: "key_a",
    plan: "pro",
    expiresAt: null,
    windows: [unopened, { resetsAt: null }],
    ban: null,
    retryAfterSeconds: 0,
    answeredAt: new Date(),
  });
  await client.cancelOrder(1n);
  vi.advanceTimersByTime(20_400);
  const quota = await client.quota();
  expect(quota).toMatchObject({ retryAfterSeconds: 40, expiresAt: new Date("2030-01-01") });
  vi.advanceTimersByTime(39_700);
  const next = await client.quota();
  expect(next.windows[0]).toEqual(unopened);
  for (const [window, endsMs] of [
    [quota.windows[0]!, 60_000],
    [quota.windows[1]!, 86_400_000],
    [next.windows[1]!, 86_400_000],
  ] as const) {
    const lateMs = window.resetsAt!.getTime() - (START_MS + endsMs);
    expect(lateMs).toBeGreaterThanOrEqual(0);
    expect(lateMs).toBeLessThan(1_000);
  }
  expect(client.limits).toMatchObject({ windows: [{ remaining: 1, resetSeconds: 60 }, {}] });
  // A ban.
  limiter.bans = { ...limiter.bans, graceMs: 0, minStrikes: 1 };
  for (let times = 0; times < 3; times += 1) limiter.request();
  const { ban, windows } = await client.quota();
  expect(ban).toEqual({ endsAt: new Date(Date.now() + 60_000), number: 1 });
  expect(windows[1]).toMatchObject({ remaining: 0, resetsAt: ban!.endsAt });
});
