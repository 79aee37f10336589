import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { keyUsage } from "../../../src/schema/keys.ts";
import type { QuotaPolicy } from "../../../src/worker/limit-rules/decision.ts";
import type { LimiterObjects } from "../../../src/worker/limiter/object-call.ts";
import { events, type LogLine, readLog } from "../faults/log-lines.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import {
  evictLimiter,
  limiterNamed,
  limiterStorage,
  runAlarmWhenDue,
  tapDatabase,
} from "../../support/limiter.ts";

const NAME = "key:key_test";
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const POLICY: QuotaPolicy = {
  limits: { perMinute: 3, perDay: 1_000 },
  revision: 0,
  resets: 0,
  bans: true,
};

let log: () => LogLine[];
let noonMs: number;
let today: string;

beforeEach(() => {
  log = readLog();
  const startMs = stopClock();
  noonMs = Math.ceil(startMs / DAY_MS) * DAY_MS + 12 * HOUR_MS;
  today = dayOf(noonMs);
  advanceClock(noonMs - startMs);
});

const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);
const limiter = () => limiterNamed(NAME);
const admit = async (policy = POLICY) => (await limiter().admit(policy)).admitted;
const reported = () => drizzle(env.KEYS).select().from(keyUsage).orderBy(keyUsage.day);
const alarmMs = async () => (await limiterStorage(NAME)).alarmMs;

const comeToAlarm = () => runAlarmWhenDue(NAME);

/** Changes the stored row of the Durable Object, and restarts the Durable Object. */
async function changeStored(change: (state: any) => unknown): Promise<void> {
  await runInDurableObject(limiter(), (_, { storage }) => {
    storage.kv.put("record", change(storage.kv.get("record")));
  });
  await evictLimiter(NAME);
}

describe("a report", () => {
  test("contains the usage of a key on a day, with the id of the key", async () => {
    for (let n = 0; n < 5; n++) await admit();
    advanceClock(60_000);
    await admit();
    await comeToAlarm();
    expect(await reported()).toStrictEqual([
      {
        keyId: "key_test",
        day: today,
        admitted: 4,
        refused: 2,
        strikes: 0,
        bans: 0,
        peakMinute: 3,
        peakDay: 4,
        perMinute: 3,
        perDay: 1_000,
        reportedAt: new Date(noonMs + HOUR_MS),
      },
    ]);
  });

  test("includes strikes and bans from refusals that isolates report; the ban is logged", async () => {
    for (let n = 0; n < 4; n++) await admit();
    advanceClock(11_000);
    await limiter().admit(POLICY, [11_000, 900, 800], 40);
    for (let n = 0; n < 56; n++) await admit();
    expect(log()).toStrictEqual([]);
    expect((await limiter().admit(POLICY)).banned).toBe(true);
    expect(log()).toMatchObject([
      {
        event: "banned",
        keyId: "key_test",
        number: 1,
        until: new Date(noonMs + 71_000).toISOString(),
      },
    ]);
    const object: ReturnType<LimiterObjects["getByName"]> = limiter();
    await object.admit(POLICY, [], 7, "shared call", { requests: 10, wait: null });
    await comeToAlarm();
    const refused = 1 + 41 + 57 + 10 + 7;
    expect(await reported()).toMatchObject([{ admitted: 3, refused, strikes: 60, bans: 1 }]);
    expect(log()).toHaveLength(1);
  });

  test("is sent at most once an hour, and within an hour after an admission", async () => {
    const line = await tapDatabase(NAME);
    const policy = { ...POLICY, limits: { perMinute: 100, perDay: 1_000 } };
    const reportsMs: number[] = [];
    for (let minute = 0; minute < 4 * 60; minute += 13) {
      await admit(policy);
      const due = await alarmMs();
      expect(due).toBeLessThanOrEqual(Date.now() + HOUR_MS);
      advanceClock(13 * 60_000);
      if (due! > Date.now()) continue;
      const { length } = line.statements;
      await runDurableObjectAlarm(limiter());
      expect(line.statements.length).toBeGreaterThan(length);
      reportsMs.push(Date.now());
    }
    expect(reportsMs.length).toBeGreaterThan(1);
    const gapsMs = reportsMs.slice(1).map((reportMs, index) => reportMs - reportsMs[index]!);
    expect(Math.min(...gapsMs)).toBeGreaterThanOrEqual(HOUR_MS);
  });

  test("changes nothing if it is sent twice, early or late", async () => {
    await admit();
    await comeToAlarm();
    const before = await reported();
    await runInDurableObject(limiter(), (object) => object.alarm());
    advanceClock(2 * HOUR_MS);
    await evictLimiter(NAME);
    await runDurableObjectAlarm(limiter());
    expect(await reported()).toStrictEqual(before);
    await admit();
    await comeToAlarm();
    expect(await reported()).toMatchObject([{ admitted: 2 }]);
  });

  test("lowers no total, even if the Durable Object lost its storage", async () => {
    for (let n = 0; n < 9; n++) await admit();
    await comeToAlarm();
    await runInDurableObject(limiter(), (_, { storage }) => storage.deleteAll());
    await evictLimiter(NAME);
    await admit({ ...POLICY, limits: { perMinute: 5, perDay: 1_000 } });
    await comeToAlarm();
    expect(await reported()).toMatchObject([
      { admitted: 3, refused: 6, peakMinute: 3, perMinute: 5 },
    ]);
  });

  test("is stored on disk before it is sent, so that no later report is smaller", async () => {
    for (let n = 0; n < 5; n++) await admit();
    await comeToAlarm();
    await evictLimiter(NAME);
    for (let n = 0; n < 5; n++) await admit();
    await comeToAlarm();
    expect(await reported()).toMatchObject([{ admitted: 6, refused: 4 }]);
  });
});

test("a Durable Object that is opened without its name reports usage for the key in its stored row", async () => {
  await admit();
  const state = await runInDurableObject(limiter(), (_, { storage }) => storage.kv.get("record"));
  const unnamed = env.RATE_LIMITER.get(env.RATE_LIMITER.newUniqueId());
  await runInDurableObject(unnamed, (_, { storage }) =>
    storage.kv.put("record", { ...(state as object), keyId: "key_named" }),
  );
  await evictDurableObject(unnamed);
  const object = env.RATE_LIMITER.get(unnamed.id);
  expect(await object.admit(POLICY)).toMatchObject({ minute: { remaining: 1 } });
  await runInDurableObject(object, (limiterOfKey) => limiterOfKey.alarm());
  expect(await reported()).toMatchObject([{ keyId: "key_named", admitted: 2 }]);
});

test("a database may lack the table, as before its migration was applied", async () => {
  await env.KEYS.exec("ALTER TABLE key_usage RENAME TO later");
  await admit();
  await comeToAlarm();
  expect(events(log())).toStrictEqual(["report_failed"]);
  await env.KEYS.exec("ALTER TABLE later RENAME TO key_usage");
  const failedMs = Date.now();
  await comeToAlarm();
  expect(Date.now() - failedMs).toBe(60_000);
  expect(await reported()).toMatchObject([{ admitted: 1 }]);
});

describe("the usage", () => {
  test("is deleted with the limiter state when the day and the windows have ended and the usage is reported", async () => {
    await admit();
    await comeToAlarm();
    expect(await limiterStorage(NAME)).toMatchObject({ alarmMs: noonMs + DAY_MS });
    await comeToAlarm();
    expect(await limiterStorage(NAME)).toMatchObject({ keys: [], alarmMs: null });
    expect(await reported()).toMatchObject([{ admitted: 1 }]);
  });

  test("is kept until the end of the day, although the windows were reset", async () => {
    await admit();
    await changeStored((state) => ({ ...state, minute: null, day: null }));
    await comeToAlarm();
    expect(await alarmMs()).toBe(noonMs + 12 * HOUR_MS);
    await comeToAlarm();
    expect(await limiterStorage(NAME)).toMatchObject({ keys: [] });
  });

  test("is forgotten day by day while the key is used", async () => {
    for (let day = 0; day < 3; day++) {
      await admit();
      await comeToAlarm();
      advanceClock(DAY_MS - HOUR_MS);
    }
    await admit();
    await comeToAlarm();
    await admit();
    await runInDurableObject(limiter(), (_, { storage }) => {
      expect(storage.kv.get<{ usage: unknown[] }>("record")?.usage).toHaveLength(1);
    });
    expect(await reported()).toMatchObject([1, 1, 1, 1].map((admitted) => ({ admitted })));
  });

  test("survives a reset of the windows, which is logged", async () => {
    for (let n = 0; n < 4; n++) await admit();
    const reset = { ...POLICY, revision: 1, resets: 1 };
    expect(await admit(reset)).toBe(true);
    expect(await admit(reset)).toBe(true);
    expect(log()).toStrictEqual([{ event: "limiter_reset", keyId: "key_test" }]);
    await comeToAlarm();
    expect(await reported()).toMatchObject([{ admitted: 5, refused: 1, peakMinute: 3 }]);
  });
});

test("a count whose write failed is not reported before it is on disk", async () => {
  await runInDurableObject(limiter(), async (object, { storage }) => {
    await object.admit(POLICY);
    const broken = vi.spyOn(storage, "sync").mockRejectedValue(new Error("disk"));
    await expect(object.admit(POLICY)).rejects.toThrow("disk");
    await expect(object.alarm()).rejects.toThrow("disk");
    broken.mockRestore();
  });
  expect(await reported()).toStrictEqual([]);
  await runInDurableObject(limiter(), (object) => object.alarm());
  expect(await reported()).toMatchObject([{ admitted: 2 }]);
});
