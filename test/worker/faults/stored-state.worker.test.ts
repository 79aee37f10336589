import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { quotaOf } from "../../support/answer.ts";
import { createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import { evictLimiter, limiterNamed, limiterStorage } from "../../support/limiter.ts";
import { type Send, startService } from "../../support/service.ts";
import { events, type LogLine, readLog } from "./log-lines.ts";

const LIST = "/v1/store/orders";
const DAY_MS = 86_400_000;

let service: Send;
let log: () => LogLine[];
let id: string;
let key: string;
let startMs: number;

beforeEach(async () => {
  log = readLog();
  service = startService();
  ({ id, key } = await createEnterpriseKey(3, 10));
  startMs = stopClock();
});

const request = () => service(LIST, { key });
const name = () => `key:${id}`;

/** Replaces the stored row of the key's Durable Object, and restarts the Durable Object. */
async function store(row: unknown): Promise<void> {
  await runInDurableObject(limiterNamed(name()), (_, { storage }) => {
    storage.kv.put("record", row);
  });
  await evictLimiter(name());
}

const valid = () => ({
  limits: { perMinute: 3, perDay: 10 },
  revision: 0,
  resets: 0,
  minute: { openedMs: startMs, count: 2 },
  day: { openedMs: startMs, count: 4 },
  ban: null,
});

describe("an unreadable stored state", () => {
  test.each<[string, () => unknown]>([
    ["text", () => "garbage"],
    ["a number", () => 42],
    ["null", () => null],
    ["an empty object", () => ({})],
    ["without a window", () => ({ ...valid(), minute: undefined })],
    ["with a negative count", () => ({ ...valid(), day: { openedMs: startMs, count: -1 } })],
    ["with a time that is not a number", () => ({ ...valid(), day: { openedMs: NaN, count: 1 } })],
    ["with a ban without an end", () => ({ ...valid(), ban: { untilMs: Infinity, number: 1 } })],
    ["with limits of another type", () => ({ ...valid(), limits: [3, 10] })],
    ["bytes", () => new Uint8Array([1, 2, 3])],
  ])("%s: the limiter starts from an empty state, with a log line", async (_, row) => {
    await store(row());
    const response = await request();
    expect(response.status).toBe(200);
    expect(quotaOf(response)).toMatchObject({ remaining: 2, day: { remaining: 9 } });
    expect(events(log())).toStrictEqual(["limiter_state_unreadable"]);
    expect((await limiterStorage(name())).record).toMatchObject({ minute: { count: 1 } });

    await evictLimiter(name());
    expect(quotaOf(await request()).remaining).toBe(1);
    expect(events(log())).toHaveLength(1);
  });
});

describe("a stored state of another version", () => {
  test("is read with additional fields", async () => {
    await store({ ...valid(), region: "weur", minute: { openedMs: startMs, count: 2, peak: 7 } });
    expect(quotaOf(await request())).toMatchObject({ remaining: 0, day: { remaining: 5 } });
    expect((await request()).status).toBe(429);
    expect(log()).toStrictEqual([]);
  });

  test("with impossible times delays no client by more than a day", async () => {
    const century = startMs + 36_500 * DAY_MS;
    await store({
      ...valid(),
      minute: { openedMs: century, count: 3 },
      day: { openedMs: century, count: 10 },
      ban: { untilMs: century, number: 40 },
    });
    const refused = await request();
    expect(refused.headers.get("Retry-After")).toBe("86400");
    expect(quotaOf(refused)).toMatchObject({
      remaining: 0,
      reset: Math.ceil(startMs / 1_000) + 86_400,
    });
    advanceClock(DAY_MS);
    expect((await request()).status).toBe(200);
  });
});

describe("the alarm", () => {
  test("keeps the state if it fails, and runs again", async () => {
    await request();
    await runInDurableObject(limiterNamed(name()), async (limiter, { storage }) => {
      const broken = vi.spyOn(storage, "setAlarm").mockRejectedValueOnce(new Error("disk"));
      await expect(limiter.alarm()).rejects.toThrow("disk");
      broken.mockRestore();
    });
    expect(quotaOf(await request()).remaining).toBe(1);
    await runDurableObjectAlarm(limiterNamed(name()));
    expect(await limiterStorage(name())).toMatchObject({
      record: { day: { count: 2 } },
      alarmMs: startMs + DAY_MS,
    });
  });

  test("has no effect on limits if it fails to delete an expired state", async () => {
    await request();
    advanceClock(DAY_MS);
    await runInDurableObject(limiterNamed(name()), async (limiter, { storage }) => {
      vi.spyOn(storage, "deleteAll").mockRejectedValueOnce(new Error("disk"));
      await expect(limiter.alarm()).rejects.toThrow("disk");
    });
    for (const remaining of [2, 1]) {
      expect(quotaOf(await request())).toMatchObject({
        remaining,
        day: { remaining: remaining + 7 },
      });
    }
    await evictLimiter(name());
    expect(quotaOf(await request()).remaining).toBe(0);
    expect((await request()).status).toBe(429);
  });

  test("changes no response, whether it runs between two requests or never", async () => {
    for (const remaining of [2, 1, 0]) {
      expect(quotaOf(await request()).remaining).toBe(remaining);
      await runDurableObjectAlarm(limiterNamed(name()));
      await evictLimiter(name());
    }
    expect((await request()).status).toBe(429);
    advanceClock(3 * DAY_MS);
    expect(quotaOf(await request())).toMatchObject({ remaining: 2, day: { remaining: 9 } });
  });
});
