import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { type FoundKey, keysByHash } from "../../../src/worker/api-keys/key-by-hash.ts";
import { ApiKeyDirectory } from "../../../src/worker/api-keys/directory.ts";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import { DatabaseQueries, DatabaseUnavailableError } from "../../../src/worker/db/availability.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { faultyDatabases, LOST, PASS } from "../../support/faults.ts";

let line: ReturnType<typeof faultyDatabases>;
let directory: ApiKeyDirectory;

beforeEach(() => {
  stopClock();
  line = faultyDatabases("KEYS");
  directory = new ApiKeyDirectory(new DatabaseQueries("keys", 1_000), 2);
});

async function find(key: string): Promise<FoundKey | null> {
  const inBackground: Promise<unknown>[] = [];
  const waitUntil = (promise: Promise<unknown>) => void inBackground.push(promise);
  const lookUp = { isSuspect: () => false, waitUntil };
  const found = await directory.find(line.bindings.KEYS!, hashSecret(key), lookUp);
  await Promise.all(inBackground);
  return found;
}

const queries = () => line.script.calls;

test("a remembered key is refreshed after 10 seconds, then once a second until that succeeds, and at once if the clock was set back", async () => {
  const expiresAt = new Date(4_000_000_000_000);
  const { id, key } = await createApiKey({ name: "Ünï", expiresAt, locationHint: "oc" });
  const fields = { id, name: "Ünï", plan: "free", perMinute: null, expiresAt, locationHint: "oc" };
  for (const [waitMs, expected] of [
    [0, 1],
    [9_999, 1],
    [1, 2],
    [9_999, 2],
    [-10_000, 3],
  ] as const) {
    advanceClock(waitMs);
    for (let n = 0; n < 5; n++) expect(await find(key)).toMatchObject(fields);
    expect(queries()).toBe(expected);
  }
  line.script.always(LOST);
  for (const waitMs of [10_000, 999, 1]) {
    advanceClock(waitMs);
    for (let n = 0; n < 5; n++) await find(key);
  }
  expect(queries()).toBe(5);
});

test("an unknown key is remembered for 25 seconds without a database, and found within 10 seconds of its creation", async () => {
  const { id, key } = await createApiKey();
  const setHash = (hash: string) =>
    env.KEYS.prepare("UPDATE api_keys SET hash = ? WHERE id = ?").bind(hash, id).run();
  await setHash("other");
  expect(await find(key)).toBeNull();
  line.script.always(LOST);
  advanceClock(24_999);
  expect(await find(key)).toBeNull();
  advanceClock(1);
  await expect(find(key)).rejects.toThrow(DatabaseUnavailableError);
  line.script.always(PASS);
  expect(await find(key)).toBeNull();
  await setHash(hashSecret(key));
  advanceClock(10_000);
  await find(key);
  expect(await find(key)).toMatchObject({ id });
});

test("unknown keys never evict a known key; the number of remembered keys is limited", async () => {
  const created = Array.from({ length: 6 }, () => createApiKey());
  const keys = (await Promise.all(created)).map(({ key }) => key);
  for (const key of [...keys, ...keys]) await find(key);
  expect(queries()).toBe(12);
  const invented = Array.from({ length: 6 }, generateSecret);
  for (const key of [...invented, ...invented]) await find(key);
  expect(queries()).toBe(24);
  await find(keys.at(-1)!);
  expect(queries()).toBe(24);
});

test("finds a key among more hashes than a parameter of a query can hold, which is 2 MB", async () => {
  const { id, key } = await createApiKey();
  const hash = hashSecret(key);
  const invented = Array.from({ length: 40_000 }, (_, n) => hash.slice(8) + String(1e7 + n));
  const sizes: number[] = [];
  const prepare = (sql: string) => ({
    bind: (json: string) => {
      sizes.push(json.length);
      return env.KEYS.prepare(sql).bind(json);
    },
  });
  const found = await keysByHash({ prepare } as D1Database, [...invented, hash]);
  expect([...found]).toMatchObject([[hash, { id }]]);
  expect(Math.max(...sizes)).toBeLessThan(500_000);
});
