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

async function admit(policy = POLICY): Promise<boolean> {
  return (await limiterNamed(NAME).admit(policy)).admitted;
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
});

test("an eviction does not lose a lowered limit, although its first request was refused", async () => {
  for (let n = 0; n < 2; n++) await admit();
  await admit({ ...POLICY, limits: { perMinute: 1, perDay: 2 }, revision: 1 });
  await evictLimiter(NAME);
  const older = await limiterNamed(NAME).admit({
    ...POLICY,
    limits: { perMinute: 9, perDay: 9 },
  });
  expect(older).toMatchObject({ admitted: false, minute: { limit: 1 } });
});

describe("the alarm", () => {
  test("deletes the storage if all windows have ended, also after an eviction or if it runs twice", async () => {
    for (const isEvicted of [false, true]) {
      await admit();
      expect((await limiterStorage(NAME)).alarmMs).toBe(Date.now() + HOUR_MS);
      if (isEvicted) await evictLimiter(NAME);
      advanceClock(DAY_MS);
      expect(await runDurableObjectAlarm(limiterNamed(NAME))).toBe(true);
      expect(await limiterStorage(NAME)).toMatchObject({ keys: [], record: null, alarmMs: null });
      await runInDurableObject(limiterNamed(NAME), (limiter) => limiter.alarm());
      expect(await limiterStorage(NAME)).toMatchObject({ keys: [], alarmMs: null });
    }
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
});

test("a call that is sent again counts its requests and its report once, and gets the same decision", async () => {
  const call = (nonce: string, agesMs: number[] = []) =>
    limiterNamed(NAME).admit(POLICY, agesMs, agesMs.length, nonce);
  const first = await call("one");
  expect(await call("one")).toStrictEqual(first);
  expect(await call("two")).toMatchObject({ admitted: true, minute: { remaining: 0 } });
  expect(await call("one")).toStrictEqual(first);
  expect(await call("three")).toMatchObject({ admitted: false });
  advanceClock(10_000);
  const report = [10_000, ...Array<number>(58).fill(0)];
  const strike = await call("strikes", report);
  expect(strike.strikes?.left).toBe(1);
  expect(await call("strikes", report)).toStrictEqual(strike);
  expect(await call("last")).toMatchObject({ banned: true });
  expect((await limiterStorage(NAME)).record?.minute?.count).toBe(2);
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
