import { env } from "cloudflare:workers";
import { beforeEach, expect, test, vi } from "vitest";
import type { FoundKey } from "../../../src/worker/api-keys/key-by-hash.ts";
import { keysByHash } from "../../../src/worker/api-keys/key-by-hash.ts";
import { ApiKeyDirectory } from "../../../src/worker/api-keys/directory.ts";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import { DatabaseQueries, DatabaseUnavailableError } from "../../../src/worker/db/availability.ts";
import { createApiKey, rotate } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { faultyDatabases, LOST, PASS } from "../../support/faults.ts";

let line: ReturnType<typeof faultyDatabases>;
let directory: ApiKeyDirectory;

beforeEach(() => {
  line = faultyDatabases("KEYS");
  directory = new ApiKeyDirectory(new DatabaseQueries("keys", 1_000), 4);
});

const inBackground: Promise<unknown>[] = [];

async function find(key: string): Promise<FoundKey | null> {
  const waitUntil = (promise: Promise<unknown>) => void inBackground.push(promise);
  const lookUp = { isSuspect: () => false, waitUntil };
  const found = await directory.find(line.bindings.KEYS!, hashSecret(key), lookUp);
  await Promise.all(inBackground.splice(0));
  return found;
}

const queries = () => line.script.calls;

test("finds a key with all its fields by the hash of its secret", async () => {
  const expiresAt = new Date(4_000_000_000_000);
  const { id, key } = await createApiKey({ name: "Ünï", expiresAt, locationHint: "oc" });
  expect(await find(key)).toStrictEqual({
    id,
    hash: hashSecret(key),
    lastFour: key.slice(-4),
    name: "Ünï",
    plan: "free",
    perMinute: null,
    perDay: null,
    createdAt: expect.any(Date),
    expiresAt,
    revokedAt: null,
    revision: 0,
    resets: 0,
    locationHint: "oc",
    hashEndsAt: null,
  });
});

test("reads only the rows that are necessary to find a key by its current or a former hash, or none", async () => {
  const { id, key: former } = await createApiKey();
  const own = await rotate(id, 60_000);
  const prepare = vi.spyOn(env.KEYS, "prepare");
  for (let n = 0; n < 5; n++) await rotate((await createApiKey()).id, 60_000);
  for (const [key, found, rowsRead] of [
    [own, { id }, 1],
    [former, { id }, 2],
    [generateSecret(), null, 0],
  ] as const) {
    expect(await find(key)).toEqual(found && expect.objectContaining(found));
    const statement = env.KEYS.prepare(prepare.mock.lastCall![0]);
    const { meta } = await statement.bind(JSON.stringify([hashSecret(key)])).all();
    // In each half of the UNION, D1 also counts one row for the wanted hash in `json_each`.
    expect(meta.rows_read).toBe(rowsRead + 2);
  }
});

test("a remembered key is refreshed after 10 seconds, then once a second until that succeeds, and at once if the clock was set back", async () => {
  const { key } = await createApiKey();
  stopClock();
  for (const [waitMs, expected] of [
    [0, 1],
    [9_999, 1],
    [1, 2],
    [9_999, 2],
    [-10_000, 3],
  ] as const) {
    advanceClock(waitMs);
    for (let n = 0; n < 5; n++) expect(await find(key)).not.toBeNull();
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
  const hash = hashSecret(key);
  stopClock();
  await env.KEYS.prepare("UPDATE api_keys SET hash = 'other' WHERE id = ?").bind(id).run();
  expect(await find(key)).toBeNull();
  line.script.always(LOST);
  advanceClock(24_999);
  expect(await find(key)).toBeNull();
  advanceClock(1);
  await expect(find(key)).rejects.toThrow(DatabaseUnavailableError);
  line.script.always(PASS);
  expect(await find(key)).toBeNull();
  await env.KEYS.prepare("UPDATE api_keys SET hash = ? WHERE id = ?").bind(hash, id).run();
  advanceClock(10_000);
  await find(key);
  expect(await find(key)).toMatchObject({ id });
});

test("unknown keys never evict a known key; the number of remembered keys is limited", async () => {
  const keys = await Promise.all(
    Array.from({ length: 12 }, async () => (await createApiKey()).key),
  );
  stopClock();
  for (const key of [...keys, ...keys]) await find(key);
  expect(queries()).toBe(24);
  for (let n = 0; n < 20; n++) await find(generateSecret());
  expect(queries()).toBe(44);
  await find(keys.at(-1)!);
  expect(queries()).toBe(44);
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
