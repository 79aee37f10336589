import { beforeEach, expect, test, vi } from "vitest";
import { generateSecret } from "../../../src/store/keys/new-secret.ts";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import { ApiKeyDirectory } from "../../../src/worker/api-keys/directory.ts";
import { DatabaseQueries } from "../../../src/worker/db/availability.ts";
import { createApiKey, rotate, updateApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { faultyDatabases, LOST } from "../../support/faults.ts";
import { type Send, settle, startService } from "../../support/service.ts";

const ADDRESS = "198.51.100.7";
const OTHER_ADDRESS = "198.51.100.8";

let line: ReturnType<typeof faultyDatabases>;
let service: Send;

beforeEach(() => {
  line = faultyDatabases("KEYS");
  service = startService({}, line.bindings);
  stopClock();
});

const queries = () => line.script.calls;

/** Sends a request with each key at once. Returns the statuses. A valid key receives 404. */
async function statuses(keys: readonly string[], address = OTHER_ADDRESS): Promise<number[]> {
  const answers = keys.map((key) => service("/v1/nothing", { key, address }));
  return (await Promise.all(answers)).map(({ status }) => status);
}

const invented = (count: number) => Array.from({ length: count }, generateSecret);
const newKey = async () => (await createApiKey()).key;

test("a remembered key is refreshed 10 seconds after its query began, then once a second until that succeeds, and at once if the clock was set back", async () => {
  const { id, key } = await createApiKey();
  const use = async (waitMs: number) => {
    advanceClock(waitMs);
    for (let n = 0; n < 3; n++) expect(await statuses([key])).toStrictEqual([404]);
    await settle();
    return queries();
  };
  const counts: number[] = [];
  line.script.next(async (call) => {
    const row = await call();
    advanceClock(4_000);
    return row;
  });
  for (const ms of [0, 5_999, 1, 9_999, -10_000]) counts.push(await use(ms));
  line.script.always(LOST);
  for (const ms of [10_000, 999, 1]) counts.push(await use(ms));
  expect(counts).toStrictEqual([1, 1, 2, 2, 3, 4, 4, 5]);
  // The platform lets a refresh end after the response.
  const [sent, ended] = [Promise.withResolvers<void>(), vi.fn<() => void>()];
  line.script.always((call) => sent.promise.then(call).finally(ended));
  advanceClock(1_000);
  expect(await statuses([key])).toStrictEqual([404]);
  await rotate(id, 0);
  sent.resolve();
  await settle();
  expect(ended).toHaveBeenCalledOnce();
  expect(await statuses([key])).toStrictEqual([401]);
});

test("hundreds of invented keys from one address cause only a few queries and do not block valid keys", async () => {
  const [good, late] = [await newKey(), await newKey()];
  // Concurrent requests share queries, and each finds its own key.
  const first = await statuses([good, ...invented(30)]);
  expect(first).toStrictEqual([404, ...Array<number>(30).fill(401)]);
  expect(await statuses(invented(60), ADDRESS)).toStrictEqual(Array(60).fill(401));
  expect(queries()).toBeLessThanOrEqual(10);
  const before = queries();
  for (let wave = 0; wave < 3; wave += 1) {
    const attack = statuses(invented(94), ADDRESS);
    const newcomer = statuses([await newKey()]);
    expect([await statuses([good]), await newcomer]).toStrictEqual([[404], [404]]);
    if (wave === 2) expect(await statuses([late], ADDRESS)).toStrictEqual([404]);
    expect(await attack).toStrictEqual(Array(94).fill(429));
  }
  // Each wave needs up to two queries for the attack and one for the new key; `late` needs one.
  expect(queries() - before).toBeLessThanOrEqual(10);
});

test("from an address past its budget, a request with an unknown key waits while others are served; one with a remembered key does not wait, even for a new look-up", async () => {
  const [key, remembered] = [await newKey(), await newKey()];
  const [unknown = "", ...others] = invented(61);
  await statuses([remembered, unknown, ...others], ADDRESS);
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() + 25_000 });
  const before = queries();
  const suspect = statuses([unknown], ADDRESS);
  expect(await statuses([key])).toStrictEqual([404]);
  for (const _ of [1, 2]) expect(await statuses([remembered], ADDRESS)).toStrictEqual([404]);
  await vi.advanceTimersByTimeAsync(24);
  expect(queries()).toBe(before + 2);
  await vi.advanceTimersByTimeAsync(1);
  expect(await suspect).toStrictEqual([429]);
});

test.each([
  ["is revoked", (id: string) => updateApiKey(id, { revokedAt: new Date() })],
  // Then the hash has no row.
  ["is replaced", (id: string) => rotate(id, 0)],
])(
  "if a key %s, a look-up that ends after a later one of the same millisecond does not restore the former row",
  async (_, end) => {
    const { id, key } = await createApiKey();
    const [read, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    line.script.next(async (call) => {
      const row = await call();
      read.resolve();
      await late.promise;
      return row;
    });
    const first = statuses([key]);
    await read.promise;
    await end(id);
    expect(await statuses([key])).toStrictEqual([401]);
    late.resolve();
    expect(await first).toStrictEqual([404]);
    expect(await statuses([key])).toStrictEqual([401]);
  },
);

test("unknown keys never evict a known key; the number of remembered keys is limited", async () => {
  const directory = new ApiKeyDirectory(new DatabaseQueries("keys", 1_000), 2);
  const lookUp = { isSuspect: () => false, waitUntil: () => undefined };
  const queriesFor = async (keys: readonly string[]) => {
    const before = queries();
    for (const key of keys) await directory.find(line.bindings.KEYS!, hashSecret(key), lookUp);
    return queries() - before;
  };
  for (const keys of [await Promise.all(Array.from({ length: 5 }, newKey)), invented(5)]) {
    expect(await queriesFor([...keys, ...keys])).toBe(10);
  }
  const known = await newKey();
  expect(await queriesFor([known, ...invented(5), known])).toBe(6);
});
