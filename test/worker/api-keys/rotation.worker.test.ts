import { beforeEach, expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, rotate, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, HOUR_MS, stopClock } from "../../support/clock.ts";
import { faultyDatabases, LOST } from "../../support/faults.ts";
import { type Send, send, startService } from "../../support/service.ts";

/** Changes of a key take effect within this time (docs/api.md, Authentication). */
const EFFECTIVE_MS = 30_000;

const UNKNOWN_PATH = "/v1/nothing";
const REPLACED = "was replaced by a newer one";

async function expectAccepted(service: Send, ...keys: readonly string[]): Promise<void> {
  for (const key of keys) expect((await service(UNKNOWN_PATH, { key })).status).toBe(404);
}

async function expectUnauthorized(service: Send, words: string, ...keys: string[]): Promise<void> {
  for (const key of keys) {
    const response = await service(UNKNOWN_PATH, { key });
    expect(response.headers.get("WWW-Authenticate")).toContain('error="invalid_token"');
    expect(await expectError(response, 401, "unauthorized")).toContain(words);
  }
}

/** Starts an isolate that looks up these keys, then loses the database if `isCutOff`. */
async function warmIsolate(keys: string[], isCutOff: boolean): Promise<Send> {
  const { bindings, script } = faultyDatabases("KEYS");
  const isolate = startService({}, bindings);
  await expectAccepted(isolate, ...keys);
  if (isCutOff) script.always(LOST);
  return isolate;
}

beforeEach(() => void stopClock());

test("during the grace, both secrets of a key share one budget, and a plan, an expiry and a revocation apply to both within 30 seconds", async () => {
  const { id, key: former } = await createApiKey();
  const key = await rotate(id, HOUR_MS);
  const minute = async (secret: string) =>
    quotaOf(await send(UNKNOWN_PATH, { key: secret })).minute;
  expect([(await minute(former)).remaining, (await minute(key)).remaining]).toEqual([59, 58]);
  await updateApiKey(id, { plan: "pro" });
  advanceClock(EFFECTIVE_MS);
  expect(await minute(former)).toMatchObject({ limit: 300, remaining: 297 });
  expect(await minute(key)).toMatchObject({ limit: 300, remaining: 296 });
  await updateApiKey(id, { expiresAt: new Date(Date.now() + 60_000) });
  advanceClock(59_999);
  await expectAccepted(send, former, key);
  advanceClock(1);
  await expectUnauthorized(send, "expired", former, key);
  // A revocation takes effect even if the operator's clock is ahead.
  await updateApiKey(id, { revokedAt: new Date(Date.now() + HOUR_MS) });
  advanceClock(EFFECTIVE_MS);
  await expectUnauthorized(send, "revoked", former, key);
});

test("at the end of the grace, a former secret expires at the exact millisecond, even without the database", async () => {
  for (const isCutOff of [false, true]) {
    const { id, key: former } = await createApiKey();
    const key = await rotate(id, 5_000);
    const isolate = await warmIsolate([key, former], isCutOff);
    advanceClock(4_999);
    await expectAccepted(isolate, former);
    advanceClock(1);
    await expectUnauthorized(isolate, REPLACED, former);
    await expectAccepted(isolate, key);
  }
});

test("with a grace of zero, the former secret expires within 30 seconds, even if it is remembered", async () => {
  const { id, key: former } = await createApiKey();
  const connected = await warmIsolate([former], false);
  const cutOff = await warmIsolate([former], true);
  const key = await rotate(id, 0);
  await expectUnauthorized(send, REPLACED, former);
  advanceClock(EFFECTIVE_MS);
  await expectUnauthorized(connected, REPLACED, former);
  const response = await cutOff(UNKNOWN_PATH, { key: former });
  await expectError(response, 503, "service_unavailable");
  await expectAccepted(connected, key);
});

test.each([
  ["with the second one, if its own grace is longer", 24 * HOUR_MS, HOUR_MS],
  ["at the end of its own grace, if that is shorter", HOUR_MS, 24 * HOUR_MS],
])(
  "the first secret of a key that is rotated twice expires %s, and the next rotation forgets it",
  async (_, graceMs, lastGraceMs) => {
    const { id, key: first } = await createApiKey();
    const { id: otherId, key: other } = await createApiKey();
    const second = await rotate(id, graceMs);
    await rotate(otherId, HOUR_MS);
    const third = await rotate(id, lastGraceMs);
    await expectAccepted(send, first, second, third);
    advanceClock(HOUR_MS);
    await expectUnauthorized(send, REPLACED, first);
    if (lastGraceMs > HOUR_MS) await expectAccepted(send, second);
    else await expectUnauthorized(send, REPLACED, second);
    await expectAccepted(send, third);
    await rotate(id, HOUR_MS);
    await expectUnauthorized(startService(), "unknown", first);
    // The last rotation has not removed the replaced secret of another key.
    await expectUnauthorized(send, REPLACED, other);
  },
);
