import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, rotate, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { databaseLine } from "../../support/database-double.ts";
import { type Send, send, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";
const HOUR_MS = 3_600_000;

/** Changes of a key take effect within this time (docs/api.md, Authentication). */
const EFFECTIVE_MS = 30_000;

/** Expects a 401 response that refers the caller to the newer key. */
async function expectReplaced(response: Response): Promise<void> {
  expect(response.headers.get("WWW-Authenticate")).toContain('error="invalid_token"');
  const message = await expectError(response, 401, "unauthorized");
  expect(message).toContain("was replaced by a newer one");
}

async function expectMessage(part: string, ...responses: Response[]): Promise<void> {
  for (const response of responses) {
    expect(await expectError(response, 401, "unauthorized")).toContain(part);
  }
}

beforeEach(() => {
  vi.spyOn(console, "warn").mockReturnValue();
  stopClock();
});

test("during the grace, the former key and the new key share one budget, and every change applies to both", async () => {
  const { id, key: former } = await createApiKey();
  const key = await rotate(id, HOUR_MS);
  expect(quotaOf(await send(LIST, { key: former })).remaining).toBe(59);
  expect(quotaOf(await send(LIST, { key })).remaining).toBe(58);
  await updateApiKey(id, { plan: "pro" });
  advanceClock(EFFECTIVE_MS);
  for (const [index, secret] of [former, key].entries()) {
    const { minute } = quotaOf(await send(LIST, { key: secret }));
    expect(minute).toMatchObject({ limit: 300, remaining: 297 - index });
  }
  await updateApiKey(id, { expiresAt: new Date(Date.now() + 60_000) });
  advanceClock(60_000);
  await expectMessage("expired", await send(LIST, { key }), await send(LIST, { key: former }));
  await updateApiKey(id, { revokedAt: new Date() });
  advanceClock(EFFECTIVE_MS);
  await expectMessage("revoked", await send(LIST, { key }), await send(LIST, { key: former }));
});

describe("at the end of the grace", () => {
  /**
   * Starts an isolate that remembers the keys. If `isCutOff`, then interrupts the isolate's
   * connection to the keys database.
   */
  async function warmIsolate(keys: string[], isCutOff: boolean): Promise<Send> {
    const line = databaseLine(env.KEYS);
    const isolate = startService({}, { KEYS: line.database });
    for (const key of keys) expect((await isolate("/v1/nothing", { key })).status).toBe(404);
    line.isCut = isCutOff;
    return isolate;
  }

  test.each([
    ["even if it is remembered", false],
    ["even if the database cannot be reached", true],
  ])("the former key expires at the exact millisecond, %s", async (_, isCutOff) => {
    const { id, key: former } = await createApiKey();
    const key = await rotate(id, 5_000);
    const isolate = await warmIsolate([key, former], isCutOff);
    advanceClock(4_999);
    expect((await isolate("/v1/nothing", { key: former })).status).toBe(404);
    advanceClock(1);
    await expectReplaced(await isolate("/v1/nothing", { key: former }));
    expect((await isolate("/v1/nothing", { key })).status).toBe(404);
  });

  test("with a grace of zero, the former key expires within 30 seconds, even if it is remembered", async () => {
    const { id, key: former } = await createApiKey();
    const connected = await warmIsolate([former], false);
    const cutOff = await warmIsolate([former], true);
    const key = await rotate(id, 0);
    await expectReplaced(await send(LIST, { key: former }));
    advanceClock(EFFECTIVE_MS);
    await expectReplaced(await connected(LIST, { key: former }));
    await expectError(await cutOff(LIST, { key: former }), 503, "service_unavailable");
    expect((await connected(LIST, { key })).status).toBe(200);
  });
});

describe("if a key is rotated again during the grace", () => {
  test("all its secrets are valid, the earlier secrets until the end of the last grace", async () => {
    const { id, key: first } = await createApiKey();
    const second = await rotate(id, 24 * HOUR_MS);
    const third = await rotate(id, HOUR_MS);
    const remaining: number[] = [];
    for (const key of [first, second, third]) {
      remaining.push(quotaOf(await send(LIST, { key })).remaining);
    }
    expect(remaining).toStrictEqual([59, 58, 57]);
    advanceClock(HOUR_MS);
    await expectReplaced(await send(LIST, { key: first }));
    await expectReplaced(await send(LIST, { key: second }));
    expect((await send(LIST, { key: third })).status).toBe(200);
  });

  test("an earlier secret keeps its expiry if that is before the end of the last grace", async () => {
    const { id, key: first } = await createApiKey();
    const second = await rotate(id, HOUR_MS);
    await rotate(id, 24 * HOUR_MS);
    advanceClock(HOUR_MS);
    await expectReplaced(await send(LIST, { key: first }));
    expect((await send(LIST, { key: second })).status).toBe(200);
  });

  test("a secret that has already expired is forgotten", async () => {
    const { id, key: first } = await createApiKey();
    await rotate(id, HOUR_MS);
    advanceClock(HOUR_MS);
    await rotate(id, HOUR_MS);
    await expectMessage("unknown", await send(LIST, { key: first }));
    const { results } = await env.KEYS.prepare("SELECT * FROM former_key_hashes").all();
    expect(results).toHaveLength(1);
  });
});

test("the rotation of one key does not affect other keys", async () => {
  const { id, key: former } = await createApiKey();
  await rotate(id, HOUR_MS);
  const other = await createApiKey();
  await rotate(other.id, 0);
  expect((await send(LIST, { key: former })).status).toBe(200);
  advanceClock(HOUR_MS);
  await rotate(other.id, 0);
  await expectReplaced(await send(LIST, { key: former }));
});
