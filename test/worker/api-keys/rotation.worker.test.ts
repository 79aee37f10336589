import { beforeEach, expect, test } from "vitest";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, rotate, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, HOUR_MS, stopClock } from "../../support/clock.ts";
import { faultyDatabases, LOST } from "../../support/faults.ts";
import { LIST, type Send, send, startService } from "../../support/service.ts";

/** Changes of a key take effect within this time (docs/api.md, Authentication). */
const EFFECTIVE_MS = 30_000;

const REPLACED = "was replaced by a newer one";

async function expectUnauthorized(response: Response, message: string): Promise<void> {
  expect(response.headers.get("WWW-Authenticate")).toContain('error="invalid_token"');
  expect(await expectError(response, 401, "unauthorized")).toContain(message);
}

beforeEach(() => void stopClock());

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
  for (const secret of [former, key]) {
    await expectUnauthorized(await send(LIST, { key: secret }), "expired");
  }
  await updateApiKey(id, { revokedAt: new Date() });
  advanceClock(EFFECTIVE_MS);
  for (const secret of [former, key]) {
    await expectUnauthorized(await send(LIST, { key: secret }), "revoked");
  }
});

/** Starts an isolate that looks up these keys, then loses the database if `isCutOff`. */
async function warmIsolate(keys: string[], isCutOff: boolean): Promise<Send> {
  const { bindings, script } = faultyDatabases("KEYS");
  const isolate = startService({}, bindings);
  for (const key of keys) expect((await isolate("/v1/nothing", { key })).status).toBe(404);
  if (isCutOff) script.always(LOST);
  return isolate;
}

test("at the end of the grace, a remembered former key expires at the exact millisecond, even without the database", async () => {
  const { id, key: former } = await createApiKey();
  const key = await rotate(id, 5_000);
  const isolates = [
    await warmIsolate([key, former], false),
    await warmIsolate([key, former], true),
  ];
  advanceClock(4_999);
  for (const isolate of isolates) {
    expect((await isolate("/v1/nothing", { key: former })).status).toBe(404);
  }
  advanceClock(1);
  for (const isolate of isolates) {
    await expectUnauthorized(await isolate("/v1/nothing", { key: former }), REPLACED);
    expect((await isolate("/v1/nothing", { key })).status).toBe(404);
  }
});

test("with a grace of zero, the former key expires within 30 seconds, even if it is remembered", async () => {
  const { id, key: former } = await createApiKey();
  const connected = await warmIsolate([former], false);
  const cutOff = await warmIsolate([former], true);
  const key = await rotate(id, 0);
  await expectUnauthorized(await send(LIST, { key: former }), REPLACED);
  advanceClock(EFFECTIVE_MS);
  await expectUnauthorized(await connected(LIST, { key: former }), REPLACED);
  await expectError(await cutOff(LIST, { key: former }), 503, "service_unavailable");
  expect((await connected(LIST, { key })).status).toBe(200);
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
    for (const key of [first, second, third]) expect((await send(LIST, { key })).status).toBe(200);
    advanceClock(HOUR_MS);
    await expectUnauthorized(await send(LIST, { key: first }), REPLACED);
    if (lastGraceMs > HOUR_MS) expect((await send(LIST, { key: second })).status).toBe(200);
    else await expectUnauthorized(await send(LIST, { key: second }), REPLACED);
    expect((await send(LIST, { key: third })).status).toBe(200);
    await rotate(id, HOUR_MS);
    await expectUnauthorized(await startService()(LIST, { key: first }), "unknown");
    // The last rotation has not removed the replaced secret of another key.
    await expectUnauthorized(await send(LIST, { key: other }), REPLACED);
  },
);
