import { env } from "cloudflare:workers";
import { sql } from "drizzle-orm";
import { beforeEach, expect, test, vi } from "vitest";
import { apiKeys } from "../../../src/schema/keys.ts";
import { expectError, quotaOf } from "../../support/answer.ts";
import { createApiKey, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { databaseLine } from "../../support/database-double.ts";
import { type Send, settle, startService } from "../../support/service.ts";

const LIST = "/v1/store/orders";

/** Changes of a key take effect within this time (docs/api.md, Authentication). */
const EFFECTIVE_MS = 30_000;

/**
 * Starts two isolates that remember the key. Then the isolate `cutOff` loses its connection to the
 * keys database.
 */
async function warmIsolates(key: string): Promise<{ connected: Send; cutOff: Send }> {
  const line = databaseLine(env.KEYS);
  const connected = startService();
  const cutOff = startService({}, { KEYS: line.database });
  for (const isolate of [connected, cutOff]) {
    expect((await isolate("/v1/nothing", { key })).status).toBe(404);
  }
  line.isCut = true;
  return { connected, cutOff };
}

beforeEach(() => {
  vi.spyOn(console, "warn").mockReturnValue();
  stopClock();
});

test("a revocation takes effect within 30 seconds, and without the database the key is not served", async () => {
  const { id, key } = await createApiKey();
  const { connected, cutOff } = await warmIsolates(key);
  await updateApiKey(id, { revokedAt: new Date() });
  advanceClock(EFFECTIVE_MS);
  await expectError(await connected(LIST, { key }), 401, "unauthorized");
  await expectError(await cutOff(LIST, { key }), 503, "service_unavailable");
});

test("an isolate that remembers an outdated key does not undo a change", async () => {
  const { id, key } = await createApiKey();
  const { connected, cutOff } = await warmIsolates(key);
  await updateApiKey(id, { plan: "pro", resets: sql`${apiKeys.resets} + 1` as unknown as number });
  advanceClock(10_000);
  await connected("/v1/nothing", { key });
  await settle();
  expect(quotaOf(await connected(LIST, { key })).minute).toMatchObject({
    limit: 300,
    remaining: 299,
  });
  expect(quotaOf(await cutOff("/v1/nothing", { key })).minute).toMatchObject({
    limit: 300,
    remaining: 298,
  });
  expect(quotaOf(await connected(LIST, { key })).minute).toMatchObject({ remaining: 297 });
});
