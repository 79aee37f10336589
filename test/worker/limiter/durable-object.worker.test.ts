import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Decision, QuotaPolicy } from "../../../src/worker/limit-rules/decision.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import type { LimiterObjects } from "../../../src/worker/limiter/object-call.ts";
import type { StoredState } from "../../../src/worker/limiter/stored-state.ts";
import { evictLimiter, limiterNamed, limiterStorage } from "../../support/limiter.ts";

const NAME = "key:test";
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const POLICY: QuotaPolicy = {
  limits: { perMinute: 2, perDay: 5 },
  revision: 0,
  resets: 0,
  bans: true,
};

let startMs: number;

beforeEach(() => {
  startMs = stopClock();
});

/**
 * Sends a request with a nonce, as isolates do. A retry with the same nonce is not counted again.
 */
const admitNamed = (
  nonce: string,
  { agesMs = [] as number[], refused = 0, policy = POLICY } = {},
) => limiterNamed(NAME).admit(policy, agesMs, refused, nonce);

async function admit(policy = POLICY): Promise<boolean> {
  return (await limiterNamed(NAME).admit(policy)).admitted;
}

/** Sends requests until the key is banned, 10 seconds after the first request. */
async function bringIntoBan(): Promise<void> {
  for (let n = 0; n < 3; n++) await admit();
  advanceClock(10_000);
  for (let strike = 0; strike < 60; strike++) await admit();
  expect((await limiterNamed(NAME).admit(POLICY)).banned).toBe(true);
}

describe("storage", () => {
  test("has one row, and an alarm to report the usage", async () => {
    await admit();
    expect(await limiterStorage(NAME)).toMatchObject({
      keys: ["record"],
      record: {
        limits: POLICY.limits,
        minute: { openedMs: startMs, count: 1 },
        day: { openedMs: startMs, count: 1 },
        ban: null,
      },
      alarmMs: startMs + HOUR_MS,
    });
  });

  test("writes exactly one row for each admission after the first", async () => {
    const policy = { ...POLICY, limits: { perMinute: 100, perDay: 100 } };
    await admit(policy);
    const { rowsWritten } = await limiterStorage(NAME);
    for (let n = 0; n < 20; n++) await admit(policy);
    expect((await limiterStorage(NAME)).rowsWritten).toBe(rowsWritten + 20);
    await evictLimiter(NAME);
    expect((await limiterStorage(NAME)).rowsWritten).toBe(0);
    for (let n = 0; n < 5; n++) await admit(policy);
    advanceClock(60_000);
    await admit(policy);
    expect((await limiterStorage(NAME)).rowsWritten).toBe(6);
  });

  test("writes no row for a refusal or a strike, and one row and an alarm for a ban", async () => {
    for (let n = 0; n < 2; n++) await admit();
    const { rowsWritten } = await limiterStorage(NAME);
    for (let n = 0; n < 30; n++) await admit();
    advanceClock(10_000);
    for (let n = 0; n < 59; n++) await admit();
    expect((await limiterStorage(NAME)).rowsWritten).toBe(rowsWritten);
    for (let n = 0; n < 50; n++) await admit();
    expect((await limiterStorage(NAME)).rowsWritten).toBe(rowsWritten + 2);
    expect((await limiterStorage(NAME)).record?.ban).toStrictEqual({
      untilMs: startMs + 70_000,
      number: 1,
    });
  });

  test("is ignored if it cannot be read, and a log line is written", async () => {
    const log = vi.spyOn(console, "warn").mockReturnValue();
    await runInDurableObject(limiterNamed(NAME), (_, { storage }) => {
      storage.kv.put("record", { limits: "none" });
    });
    await evictLimiter(NAME);
    expect(await admit()).toBe(true);
    expect(log.mock.calls.join()).toContain("limiter_state_unreadable");
    expect(await limiterStorage(NAME)).toMatchObject({
      record: { minute: { count: 1 } },
      alarmMs: startMs + HOUR_MS,
    });
  });

  test("is read even if a later version added fields", async () => {
    await admit();
    await runInDurableObject(limiterNamed(NAME), (_, { storage }) => {
      storage.kv.put("record", { ...storage.kv.get<object>("record"), invented: true });
    });
    await evictLimiter(NAME);
    expect([await admit(), await admit()]).toStrictEqual([true, false]);
  });
});

describe("an eviction", () => {
  test("during a window does not lose counts", async () => {
    const admitted: boolean[] = [];
    for (let n = 0; n < 4; n++) {
      admitted.push(await admit());
      await evictLimiter(NAME);
    }
    expect(admitted).toStrictEqual([true, true, false, false]);
    advanceClock(60_000);
    const later: boolean[] = [];
    for (let n = 0; n < 4; n++) {
      later.push(await admit());
      await evictLimiter(NAME);
    }
    expect(later).toStrictEqual([true, true, false, false]);
    advanceClock(60_000);
    expect([await admit(), await admit()]).toStrictEqual([true, false]);
  });

  test("does not lose a ban, but loses strikes", async () => {
    for (let n = 0; n < 3; n++) await admit();
    advanceClock(10_000);
    for (let n = 0; n < 59; n++) await admit();
    await evictLimiter(NAME);
    expect((await limiterNamed(NAME).admit(POLICY)).banned).toBe(false);
    advanceClock(10_000);
    for (let n = 0; n < 60; n++) await admit();
    await evictLimiter(NAME);
    expect(await limiterNamed(NAME).admit(POLICY)).toMatchObject({
      banned: true,
      admitted: false,
      retryAtMs: startMs + 80_000,
    });
  });

  test("loses neither a change of plan nor a reset", async () => {
    await admit();
    await admit({ ...POLICY, limits: { perMinute: 9, perDay: 9 }, revision: 1 });
    await evictLimiter(NAME);
    const older = await limiterNamed(NAME).admit(POLICY);
    expect(older.minute).toMatchObject({ limit: 9, remaining: 6 });
    await admit({ ...POLICY, revision: 2, resets: 1 });
    await evictLimiter(NAME);
    const beforeReset = await limiterNamed(NAME).admit(POLICY);
    expect(beforeReset.minute).toMatchObject({ limit: 2, remaining: 0 });
  });

  test("does not lose a lowered limit, although its first request was refused", async () => {
    for (let n = 0; n < 2; n++) await admit();
    await admit({ ...POLICY, limits: { perMinute: 1, perDay: 2 }, revision: 1 });
    await evictLimiter(NAME);
    const older = await limiterNamed(NAME).admit({
      ...POLICY,
      limits: { perMinute: 9, perDay: 9 },
    });
    expect(older).toMatchObject({ admitted: false, minute: { limit: 1 } });
  });
});

describe("the alarm", () => {
  test("deletes the storage if all windows have ended", async () => {
    await admit();
    advanceClock(DAY_MS);
    expect(await runDurableObjectAlarm(limiterNamed(NAME))).toBe(true);
    expect(await limiterStorage(NAME)).toMatchObject({ keys: [], record: null, alarmMs: null });
  });

  test("deletes the storage also after an eviction", async () => {
    await admit();
    await evictLimiter(NAME);
    advanceClock(DAY_MS);
    await runDurableObjectAlarm(limiterNamed(NAME));
    expect(await limiterStorage(NAME)).toMatchObject({ keys: [], alarmMs: null });
  });

  test("loses nothing and is set again if it runs too early or repeatedly", async () => {
    for (let n = 0; n < 2; n++) await admit();
    for (const waitMs of [0, 59_999, DAY_MS - 60_000]) {
      advanceClock(waitMs);
      expect(await runDurableObjectAlarm(limiterNamed(NAME))).toBe(true);
      expect(await limiterStorage(NAME)).toMatchObject({
        record: { day: { count: 2 } },
        alarmMs: Math.max(startMs + DAY_MS, Date.now() + HOUR_MS),
      });
    }
  });

  test("is harmless if it runs twice after all windows have ended", async () => {
    await admit();
    advanceClock(DAY_MS);
    await runDurableObjectAlarm(limiterNamed(NAME));
    await runInDurableObject(limiterNamed(NAME), (limiter) => limiter.alarm());
    expect(await limiterStorage(NAME)).toMatchObject({ keys: [], alarmMs: null });
    expect(await admit()).toBe(true);
  });

  test("delays no admission if it runs late", async () => {
    const policy = { ...POLICY, limits: { perMinute: 5, perDay: 2 } };
    for (let n = 0; n < 2; n++) await admit(policy);
    advanceClock(DAY_MS - 1);
    expect(await admit(policy)).toBe(false);
    advanceClock(1);
    expect(await admit(policy)).toBe(true);
    await runDurableObjectAlarm(limiterNamed(NAME));
    expect(await limiterStorage(NAME)).toMatchObject({
      record: { day: { openedMs: startMs + DAY_MS, count: 1 } },
      alarmMs: startMs + 2 * DAY_MS,
    });
  });

  test("is set again by the first request after the storage was deleted", async () => {
    await admit();
    advanceClock(DAY_MS);
    await runDurableObjectAlarm(limiterNamed(NAME));
    expect([await admit(), await admit(), await admit()]).toStrictEqual([true, true, false]);
    expect(await limiterStorage(NAME)).toMatchObject({
      record: { minute: { count: 2 } },
      alarmMs: startMs + DAY_MS + HOUR_MS,
    });
  });

  test("keeps the storage until the ban is forgotten", async () => {
    await bringIntoBan();
    const wipedMs = startMs + 10_000 + 60_000 + DAY_MS;
    advanceClock(DAY_MS);
    await runDurableObjectAlarm(limiterNamed(NAME));
    expect(await limiterStorage(NAME)).toMatchObject({
      record: { ban: { number: 1 } },
      alarmMs: Date.now() + HOUR_MS,
    });
    advanceClock(wipedMs - Date.now());
    await runDurableObjectAlarm(limiterNamed(NAME));
    expect(await limiterStorage(NAME)).toMatchObject({ keys: [], alarmMs: null });
  });
});

describe("a request that is sent again", () => {
  test("is counted once, and receives the same decision again", async () => {
    const first = await admitNamed("one");
    expect(await admitNamed("one")).toStrictEqual(first);
    expect(await admitNamed("two")).toMatchObject({ admitted: true, minute: { remaining: 0 } });
    expect(await admitNamed("one")).toMatchObject({ admitted: true });
    expect(await admitNamed("three")).toMatchObject({ admitted: false });
    expect((await limiterStorage(NAME)).record?.minute?.count).toBe(2);
  });

  test("is one strike, and the refusals that it reports are counted once", async () => {
    for (let n = 0; n < 3; n++) await admit();
    advanceClock(10_000);
    const report = { agesMs: [10_000, ...Array<number>(58).fill(0)], refused: 58 };
    const first = await admitNamed("strike", report);
    expect(first.strikes?.left).toBe(1);
    for (let n = 0; n < 5; n++) expect(await admitNamed("strike", report)).toStrictEqual(first);
    expect(await admitNamed("last")).toMatchObject({ banned: true });
  });
});

describe("requests that are decided during a write", () => {
  const policy = { ...POLICY, limits: { perMinute: 1_000, perDay: 1_000 } };

  test("share the next write, and are on disk when their decisions are returned", async () => {
    await admit(policy);
    const { rowsWritten } = await limiterStorage(NAME);
    const counts: number[] = [];
    await runInDurableObject(limiterNamed(NAME), async (limiter, { storage }) => {
      const stored = () => storage.kv.get<StoredState>("record")?.minute?.count ?? 0;
      const requests = Array.from({ length: 50 }, async () => {
        const { minute } = await limiter.admit(policy);
        counts.push(stored() - (minute.limit - minute.remaining));
      });
      await Promise.all(requests);
    });
    expect(counts).toHaveLength(50);
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(0);
    const after = await limiterStorage(NAME);
    expect(after.record?.minute?.count).toBe(51);
    expect(after.rowsWritten - rowsWritten).toBeLessThanOrEqual(3);
  });

  test("are rejected if the write fails, but the next write includes their counts", async () => {
    await runInDurableObject(limiterNamed(NAME), async (limiter, { storage }) => {
      const broken = vi.spyOn(storage.kv, "put").mockImplementation(() => {
        throw new Error("disk");
      });
      await expect(limiter.admit(policy)).rejects.toThrow("disk");
      broken.mockRestore();
      expect((await limiter.admit(policy)).minute.remaining).toBe(998);
    });
    await evictLimiter(NAME);
    expect((await limiterNamed(NAME).admit(policy)).minute.remaining).toBe(997);
  });

  test.each(["put", "sync"])(
    "are rejected after a failed %s until a retry of the write succeeds",
    async (fails) => {
      await runInDurableObject(limiterNamed(NAME), async (limiter, { storage }) => {
        const stored = () => storage.kv.get<StoredState>("record")?.minute?.count ?? 0;
        await limiter.admit(POLICY, [], 0, "first");
        const broken =
          fails === "put"
            ? vi.spyOn(storage.kv, "put").mockImplementation(() => {
                throw new Error("disk");
              })
            : vi.spyOn(storage, "sync").mockRejectedValue(new Error("disk"));
        const last = () => limiter.admit(POLICY, [], 0, "last");
        const refused = () => limiter.admit(POLICY, [], 0, "refused");
        for (const request of [last, last, refused, refused]) {
          await expect(request()).rejects.toThrow("disk");
        }
        broken.mockRestore();
        expect(await last()).toMatchObject({ admitted: true, minute: { remaining: 0 } });
        expect(stored()).toBe(2);
        expect(await refused()).toMatchObject({ admitted: false });
      });
    },
  );
});

test("refusals that isolates report count as strikes at their own time", async () => {
  for (let n = 0; n < 3; n++) await admit();
  advanceClock(20_000);
  const inGrace = Array.from({ length: 100 }, () => 11_000);
  expect((await limiterNamed(NAME).admit(POLICY, inGrace)).banned).toBe(false);
  const strikes = [20_000, ...Array.from({ length: 58 }, (_, n) => 5_000 - n)];
  expect(await limiterNamed(NAME).admit(POLICY, strikes)).toMatchObject({
    admitted: false,
    banned: true,
    retryAtMs: startMs + 80_000,
  });
});

test("the last cancellation is part of every decision for an hour, also after an eviction", async () => {
  const decide = async () => {
    const details = { requests: 1, wait: null };
    const object: ReturnType<LimiterObjects["getByName"]> = limiterNamed(NAME);
    const decisions = await object.admit(POLICY, [], 0, crypto.randomUUID(), details);
    return (decisions as readonly Decision[])[0]?.lastCancellation;
  };
  expect(await decide()).toBeUndefined();
  const { rowsWritten } = await limiterStorage(NAME);
  await limiterNamed(NAME).recordCancellation(5);
  expect((await limiterStorage(NAME)).rowsWritten).toBe(rowsWritten + 1);
  await limiterNamed(NAME).recordCancellation(3);
  expect(await decide()).toBe(5);
  advanceClock(HOUR_MS - 1);
  await evictLimiter(NAME);
  expect(await decide()).toBe(5);
  await runDurableObjectAlarm(limiterNamed(NAME));
  expect(await decide()).toBe(5);
  advanceClock(1);
  expect(await decide()).toBeUndefined();
});
