import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { change, findApiKey, resetApiKey } from "../../../src/operator/keys/key-changes.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { d1Store } from "../../support/d1-store.ts";
import { advanceClock, DAY_MS, HOUR_MS, stopClock } from "../../support/clock.ts";
import { faultyDatabases, LOST } from "../../support/faults.ts";
import {
  admit,
  evictLimiter,
  limiterNamed,
  limiterStorage,
  runAlarmWhenDue,
  withEnvironment,
} from "../../support/limiter.ts";
import { eventLines, events } from "../../support/written-lines.ts";

// limiter.simulation.test.ts simulates storage, alarms and SQL. This file tests the real ones.

const POLICY: QuotaPolicy = { limits: { perMinute: 3, perDay: 1_000 }, revision: 0, resets: 0 };

let keyId: string;
let name: string;
let noonMs: number;

beforeEach(async () => {
  const startMs = stopClock();
  noonMs = Math.ceil(startMs / DAY_MS) * DAY_MS + DAY_MS / 2;
  advanceClock(noonMs - startMs);
  keyId = (await createApiKey()).id;
  name = `key:${keyId}`;
});

const limiter = () => limiterNamed(name);
const requests = (count: number, policy = POLICY, nonce: string = crypto.randomUUID()) =>
  limiter().admit(policy, 0, nonce, { requests: count, wait: null });
const database = d1Store(env.KEYS);
const all = async (table: string) => {
  const { results } = await env.KEYS.prepare(`SELECT * FROM ${table} `).all();
  return results;
};
const usage = () => all("key_usage ORDER BY day");
const bans = () => all("key_bans ORDER BY began_at");
const storage = () => limiterStorage(name);
const comeToAlarm = () => runAlarmWhenDue(name);

/** Causes a ban: an isolate reports 59 strikes with a request that is the 60th strike. */
async function ban(policy = POLICY): Promise<void> {
  await requests(4, policy);
  advanceClock(20_000);
  const wait = { ageMs: 20_000, strikes: 59, oldestStrikeAgeMs: 0 };
  expect(await admit(limiter(), policy, { wait, refusals: 60 })).toMatchObject({ banned: true });
}

/** Resets the key, like the command `keys reset`. */
async function reset(): Promise<void> {
  const before = (await findApiKey(database.orm, keyId))!;
  const after = { ...resetApiKey(before), revision: before.revision + 1 };
  const operation = { action: "reset", actor: "test", at: new Date() } as const;
  await database.transaction(change(database.orm, before, after, operation));
}

test("refusals and strikes write nothing; a ban writes one row, and is logged and stored in the database at once", async () => {
  await requests(3);
  const { rowsWritten } = await storage();
  await requests(30);
  advanceClock(10_000);
  await requests(59);
  expect(await storage()).toMatchObject({ keys: ["record"], rowsWritten });
  const beganMs = Date.now();
  const until = new Date(beganMs + 60_000).toISOString();
  await requests(11);
  expect((await storage()).rowsWritten).toBe(rowsWritten + 1);
  expect(eventLines()).toMatchObject([{ event: "banned", keyId, number: 1, until }]);
  const times = { began_at: beganMs, ends_at: beganMs + 60_000, lifted_at: null };
  const first = { key_id: keyId, number: 1, ...times };
  await expect.poll(bans).toStrictEqual([first]);
  await evictLimiter(name);
  await comeToAlarm();
  expect(await bans()).toStrictEqual([first]);
  advanceClock(HOUR_MS);
  await ban();
  await runInDurableObject(limiter(), (_, { storage: { kv } }) => {
    expect(kv.get<{ unreportedBans: unknown[] }>("record")?.unreportedBans).toHaveLength(1);
  });
  const second = { number: 2, ends_at: Date.now() + 120_000 };
  await expect.poll(bans).toMatchObject([first, second]);
});

test.each([
  ["lifts an earlier ban that is reported later", "ban", POLICY, 5_000],
  ["lifts a ban that begins before the limiter knows of the reset", "reset", POLICY, 0],
  ["does not lift a later ban", "reset", { ...POLICY, revision: 1, resets: 1 }, null],
])("a reset %s, also after the object ended", async (_, first, policy, liftedAfterMs) => {
  // After a report, the next alarm is an hour away.
  await requests(1);
  await comeToAlarm();
  const { bindings, script } = faultyDatabases("KEYS");
  script.always(LOST);
  await withEnvironment(name, bindings);
  if (first === "reset") await reset();
  await ban(policy);
  const beganAt = Date.now();
  await expect.poll(events).toContain("keys_database_unavailable");
  advanceClock(5_000);
  if (first === "ban") await reset();
  await evictLimiter(name);
  expect((await storage()).alarmMs).toBe(beganAt + 60_000);
  await comeToAlarm();
  const liftedAt = liftedAfterMs === null ? null : beganAt + liftedAfterMs;
  expect(await bans()).toMatchObject([{ number: 1, began_at: beganAt, lifted_at: liftedAt }]);
});

describe("a report of usage", () => {
  test("contains a key's counts of a day; a later one adds to them, also after a restart", async () => {
    await requests(4);
    advanceClock(11_000);
    // The eviction must not postpone the alarm, because the alarm sends the report.
    await evictLimiter(name);
    const wait = { ageMs: 11_000, strikes: 2, oldestStrikeAgeMs: 900 };
    // The refusals by the isolate count once for the whole call.
    await limiter().admit(POLICY, 40, crypto.randomUUID(), { requests: 2, wait });
    advanceClock(60_000);
    await requests(4);
    await comeToAlarm();
    const counts = { admitted: 6, refused: 44, strikes: 4, bans: 0, peak_minute: 3, peak_day: 6 };
    const limits = { per_minute: 3, per_day: 1_000 };
    const of = { key_id: keyId, day: new Date(noonMs).toISOString().slice(0, 10) };
    const reported = { ...of, ...counts, ...limits, reported_at: Date.now() };
    expect(await usage()).toStrictEqual([reported]);
    // The object stored its counts before it reported them, so the eviction loses none.
    await evictLimiter(name);
    advanceClock(60_000);
    await requests(5);
    await comeToAlarm();
    expect(await usage()).toMatchObject([{ admitted: 9, refused: 46, strikes: 4 }]);
  });

  test("changes nothing if it is sent twice, and lowers no total, even if the storage was lost", async () => {
    await requests(9);
    await comeToAlarm();
    const before = await usage();
    await runInDurableObject(limiter(), (object) => object.alarm());
    expect(await usage()).toStrictEqual(before);
    await runInDurableObject(limiter(), (_, { storage: disk }) => disk.deleteAll());
    await evictLimiter(name);
    await requests(1, { ...POLICY, limits: { perMinute: 5, perDay: 1_000 } });
    await comeToAlarm();
    expect(await usage()).toMatchObject([
      { admitted: 3, refused: 6, peak_minute: 3, per_minute: 5 },
    ]);
  });

  test("that the database refuses is sent again after a minute", async () => {
    await env.KEYS.exec("ALTER TABLE key_usage RENAME TO later");
    await requests(1);
    await comeToAlarm();
    expect(events()).toStrictEqual(["report_failed"]);
    await env.KEYS.exec("ALTER TABLE later RENAME TO key_usage");
    const failedMs = Date.now();
    await comeToAlarm();
    expect(Date.now() - failedMs).toBe(60_000);
    expect(await usage()).toMatchObject([{ admitted: 1 }]);
  });

  test("is for the key in the stored row if the Durable Object is opened without its name", async () => {
    await requests(1);
    const state = await runInDurableObject(limiter(), (_, { storage: { kv } }) => kv.get("record"));
    const unnamed = env.RATE_LIMITER.get(env.RATE_LIMITER.newUniqueId());
    await runInDurableObject(unnamed, (_, { storage: { kv } }) => kv.put("record", state));
    await evictDurableObject(unnamed);
    const object = env.RATE_LIMITER.get(unnamed.id);
    expect(await admit(object, POLICY)).toMatchObject({ minute: { remaining: 1 } });
    await runInDurableObject(object, (limiterOfKey) => limiterOfKey.alarm());
    expect(await usage()).toMatchObject([{ key_id: keyId, admitted: 2 }]);
  });
});

describe("the alarm", () => {
  test("deletes the storage when all windows and the day have ended, also after an eviction or if it runs twice", async () => {
    await requests(1);
    await comeToAlarm();
    // The first report of a day comes within a minute, the next after an hour.
    expect(Date.now()).toBe(noonMs + 60_000);
    await comeToAlarm();
    expect(Date.now()).toBe(noonMs + 60_000 + HOUR_MS);
    expect(await storage()).toMatchObject({ keys: ["record"], alarmMs: noonMs + DAY_MS });
    await evictLimiter(name);
    await comeToAlarm();
    for (let run = 0; run < 2; run++) {
      expect(await storage()).toMatchObject({ keys: [], alarmMs: null });
      await runInDurableObject(limiter(), (object) => object.alarm());
    }
  });

  test("keeps only the current day of a key that is used every day", async () => {
    for (let day = 0; day < 3; day++) {
      await requests(1);
      await comeToAlarm();
      advanceClock(DAY_MS - HOUR_MS);
    }
    await requests(1);
    await comeToAlarm();
    await requests(1);
    await runInDurableObject(limiter(), (_, { storage: { kv } }) => {
      expect(kv.get<{ usage: unknown[] }>("record")?.usage).toHaveLength(1);
    });
    expect(await usage()).toMatchObject([1, 1, 1, 1].map((admitted) => ({ admitted })));
  });
});

test("the last cancellation is part of every decision for an hour, also after an eviction", async () => {
  const lastCancellation = async () => (await admit(limiter(), POLICY)).lastCancellation;
  expect(await lastCancellation()).toBeUndefined();
  const { rowsWritten } = await storage();
  await limiter().recordCancellation(5);
  expect((await storage()).rowsWritten).toBe(rowsWritten + 1);
  await limiter().recordCancellation(3);
  expect(await lastCancellation()).toBe(5);
  advanceClock(HOUR_MS - 1);
  await evictLimiter(name);
  expect(await lastCancellation()).toBe(5);
  await runDurableObjectAlarm(limiter());
  expect(await lastCancellation()).toBe(5);
  advanceClock(1);
  expect(await lastCancellation()).toBeUndefined();
});

test("a call that is sent again within 10 seconds is counted once, however many calls came between", async () => {
  const policy = { ...POLICY, limits: { perMinute: 5_000, perDay: 5_000 } };
  const answer = await requests(1, policy, "first");
  for (let waitedMs = 0; waitedMs < 10_000; waitedMs += 2_500) {
    advanceClock(2_500);
    await Promise.all(Array.from({ length: 150 }, () => requests(1, policy)));
  }
  expect(await requests(1, policy, "first")).toEqual(answer);
  expect(await storage()).toMatchObject({ record: { day: { count: 601 } } });
});
