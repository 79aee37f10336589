import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { change, findApiKey, resetApiKey } from "../../../src/operator/keys/key-changes.ts";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { d1Store } from "../../support/d1-store.ts";
import { advanceClock, DAY_MS, HOUR_MS, stopClock } from "../../support/clock.ts";
import { faultyDatabases, LOST, PASS } from "../../support/faults.ts";
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
const request = async (policy = POLICY) => (await admit(limiter(), policy)).admitted;
const requests = (count: number, policy = POLICY) =>
  limiter().admit(policy, 0, crypto.randomUUID(), { requests: count, wait: null });
const database = d1Store(env.KEYS);
const allRows = async (sql: string) => (await env.KEYS.prepare(sql).all()).results;
const usage = () =>
  allRows(`
    SELECT key_id AS keyId, day, admitted, refused, strikes, bans, peak_minute AS peakMinute,
      peak_day AS peakDay, per_minute AS perMinute, per_day AS perDay, reported_at AS reportedAt
    FROM key_usage ORDER BY day`);
const bans = () =>
  allRows(`
    SELECT key_id AS keyId, number, began_at AS beganAt, ends_at AS endsAt, lifted_at AS liftedAt
    FROM key_bans ORDER BY began_at`);
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
  const first = { keyId, number: 1, beganAt: beganMs, endsAt: beganMs + 60_000, liftedAt: null };
  await expect.poll(bans).toStrictEqual([first]);
  await evictLimiter(name);
  await comeToAlarm();
  expect(await bans()).toStrictEqual([first]);
  advanceClock(HOUR_MS);
  await ban();
  await runInDurableObject(limiter(), (_, { storage: { kv } }) => {
    expect(kv.get<{ unreportedBans: unknown[] }>("record")?.unreportedBans).toHaveLength(1);
  });
  const second = { number: 2, endsAt: Date.now() + 120_000 };
  await expect.poll(bans).toMatchObject([first, second]);
});

test("a ban takes effect without waiting for the database", async () => {
  const { promise: held, reject: fail } = Promise.withResolvers<never>();
  const { bindings, script } = faultyDatabases("KEYS");
  script.next(() => held);
  await withEnvironment(name, bindings);
  await ban();
  expect(events()).toStrictEqual(["banned"]);
  fail(new Error("Network connection lost."));
  await expect.poll(events).toStrictEqual(["banned", "keys_database_unavailable"]);
  await evictLimiter(name);
  expect((await storage()).alarmMs).toBe(noonMs + 60_000);
  await comeToAlarm();
  expect(await bans()).toHaveLength(1);
});

describe("a reset", () => {
  test("lifts a ban that is reported later", async () => {
    const { bindings, script } = faultyDatabases("KEYS");
    script.always(LOST);
    await withEnvironment(name, bindings);
    await ban();
    await expect.poll(events).toContain("keys_database_unavailable");
    advanceClock(5_000);
    await reset();
    const liftedAt = Date.now();
    script.always(PASS);
    await comeToAlarm();
    expect(await bans()).toMatchObject([{ liftedAt }]);
  });

  test.each([
    ["lifts a ban that begins before the limiter knows of the reset", POLICY, true],
    ["does not lift a later ban", { ...POLICY, revision: 1, resets: 1 }, false],
  ])("%s", async (_, policy, isLifted) => {
    await reset();
    await ban(policy);
    const beganAt = Date.now();
    const expected = [{ number: 1, beganAt, liftedAt: isLifted ? beganAt : null }];
    await expect.poll(bans).toMatchObject(expected);
  });
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
    const counts = { admitted: 6, refused: 44, strikes: 4, bans: 0, peakMinute: 3, peakDay: 6 };
    const reportedAt = Date.now();
    const day = new Date(noonMs).toISOString().slice(0, 10);
    const limits = { perMinute: 3, perDay: 1_000 };
    expect(await usage()).toStrictEqual([{ keyId, day, ...counts, ...limits, reportedAt }]);
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
    await request({ ...POLICY, limits: { perMinute: 5, perDay: 1_000 } });
    await comeToAlarm();
    expect(await usage()).toMatchObject([{ admitted: 3, refused: 6, peakMinute: 3, perMinute: 5 }]);
  });

  test("that the database refuses is sent again after a minute", async () => {
    await env.KEYS.exec("ALTER TABLE key_usage RENAME TO later");
    await request();
    await comeToAlarm();
    expect(events()).toStrictEqual(["report_failed"]);
    await env.KEYS.exec("ALTER TABLE later RENAME TO key_usage");
    const failedMs = Date.now();
    await comeToAlarm();
    expect(Date.now() - failedMs).toBe(60_000);
    expect(await usage()).toMatchObject([{ admitted: 1 }]);
  });

  test("is for the key in the stored row if the Durable Object is opened without its name", async () => {
    await request();
    const state = await runInDurableObject(limiter(), (_, { storage: { kv } }) => kv.get("record"));
    const unnamed = env.RATE_LIMITER.get(env.RATE_LIMITER.newUniqueId());
    await runInDurableObject(unnamed, (_, { storage: { kv } }) => kv.put("record", state));
    await evictDurableObject(unnamed);
    const object = env.RATE_LIMITER.get(unnamed.id);
    expect(await admit(object, POLICY)).toMatchObject({ minute: { remaining: 1 } });
    await runInDurableObject(object, (limiterOfKey) => limiterOfKey.alarm());
    expect(await usage()).toMatchObject([{ keyId, admitted: 2 }]);
  });
});

describe("the alarm", () => {
  test("deletes the storage when all windows and the day have ended, also after an eviction or if it runs twice", async () => {
    await request();
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

  test("loses nothing and is set again if it runs too early or repeatedly", async () => {
    await requests(2);
    for (const waitMs of [0, 59_999, DAY_MS - 60_000]) {
      advanceClock(waitMs);
      expect(await runDurableObjectAlarm(limiter())).toBe(true);
      const alarmMs = Math.max(waitMs === 0 ? 0 : noonMs + DAY_MS, Date.now() + HOUR_MS);
      expect(await storage()).toMatchObject({ record: { day: { count: 2 } }, alarmMs });
    }
  });

  test("keeps only the current day of a key that is used every day", async () => {
    for (let day = 0; day < 3; day++) {
      await request();
      await comeToAlarm();
      advanceClock(DAY_MS - HOUR_MS);
    }
    await request();
    await comeToAlarm();
    await request();
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

test("a call that is sent again is counted once, however many calls came between", async () => {
  const call = (nonce: string) =>
    limiter().admit({ ...POLICY, limits: { perMinute: 5_000, perDay: 5_000 } }, 0, nonce, {
      requests: 1,
      wait: null,
    });
  const answer = await call("first");
  await Promise.all(Array.from({ length: 600 }, (_, n) => call(String(n))));
  advanceClock(5_000);
  await Promise.all(Array.from({ length: 600 }, (_, n) => call(String(n))));
  expect(await call("first")).toEqual(answer);
  expect(await storage()).toMatchObject({ record: { day: { count: 601 } } });
});
