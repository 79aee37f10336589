import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { beforeEach, describe, expect, test } from "vitest";
import { resetApiKey } from "../../../src/operator/key-store/administration.ts";
import { changeQueries } from "../../../src/operator/key-store/key-changes.ts";
import { findApiKey } from "../../../src/operator/key-store/key-details.ts";
import { keyBans, keyUsage } from "../../../src/schema/keys.ts";
import type { QuotaPolicy } from "../../../src/worker/limit-rules/decision.ts";
import { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import { events, type LogLine, readLog } from "../faults/log-lines.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, stopClock } from "../../support/clock.ts";
import {
  evictLimiter,
  limiterNamed,
  limiterStorage,
  runAlarmWhenDue,
  tapDatabase,
  withEnvironment,
} from "../../support/limiter.ts";

const POLICY: QuotaPolicy = {
  limits: { perMinute: 3, perDay: 1_000 },
  revision: 0,
  resets: 0,
  bans: true,
};

let log: () => LogLine[];
let startMs: number;
let keyId: string;
let name: string;

beforeEach(async () => {
  log = readLog();
  startMs = stopClock();
  keyId = (await createApiKey()).id;
  name = `key:${keyId}`;
});

const recorded = () => drizzle(env.KEYS).select().from(keyBans).orderBy(keyBans.beganAt);
const admit = (policy = POLICY) => limiterNamed(name).admit(policy);

/**
 * Plays an isolate that sends requests to the Durable Object and, 20 seconds later, reports so many
 * refusals that the key is banned.
 */
async function ban(policy = POLICY): Promise<void> {
  for (let n = 0; n < 4; n++) await admit(policy);
  advanceClock(20_000);
  const agesMs = [20_000, ...Array<number>(59).fill(0)];
  expect((await limiterNamed(name).admit(policy, agesMs)).banned).toBe(true);
}

const comeToAlarm = () => runAlarmWhenDue(name);

/** Resets the key, like the command `keys reset`. */
async function reset(): Promise<void> {
  const orm = drizzle(env.KEYS);
  const before = (await findApiKey(orm, keyId))!;
  const after = { ...resetApiKey(before), revision: before.revision + 1 };
  const operation = { action: "reset", actor: "test", at: new Date() } as const;
  const statements = changeQueries(orm, before, after, operation).map((query) => {
    const { sql, params } = query.toSQL();
    return env.KEYS.prepare(sql).bind(...params);
  });
  await env.KEYS.batch(statements);
}

describe("a ban", () => {
  test("is stored in the database immediately, in one row", async () => {
    await ban();
    const first = {
      keyId,
      number: 1,
      beganAt: new Date(startMs + 20_000),
      endsAt: new Date(startMs + 80_000),
      liftedAt: null,
    };
    await expect.poll(recorded).toStrictEqual([first]);
    for (let n = 0; n < 10; n++) await admit();
    await evictLimiter(name);
    await comeToAlarm();
    expect(await recorded()).toStrictEqual([first]);

    await ban();
    const beganMs = Date.now();
    const second = { number: 2, beganAt: new Date(beganMs), endsAt: new Date(beganMs + 120_000) };
    await expect.poll(recorded).toMatchObject([first, second]);
  });

  test("takes effect without waiting for the database", async () => {
    const { promise: held, reject: fail } = Promise.withResolvers<never>();
    const statement = { bind: () => null };
    await withEnvironment(name, { KEYS: { prepare: () => statement, batch: () => held } });
    await ban();
    expect((await admit()).banned).toBe(true);
    expect(events(log())).toStrictEqual(["banned"]);
    fail(new Error("Network connection lost."));
    await expect.poll(() => events(log())).toStrictEqual(["banned", "keys_database_unavailable"]);
    expect(await recorded()).toStrictEqual([]);
    await evictLimiter(name);
    await comeToAlarm();
    expect(await recorded()).toHaveLength(1);
  });

  test("that begins during the report of an earlier ban is kept if its own report fails", async () => {
    const report = { isHeld: true, calls: 0 };
    const batch = async (statements: D1PreparedStatement[]) => {
      report.calls += 1;
      const isSecond = report.calls === 2;
      while (report.isHeld) await scheduler.wait(1);
      if (isSecond) throw new Error("Network connection lost.");
      return env.KEYS.batch(statements);
    };
    await withEnvironment(name, {
      KEYS: { prepare: (sql: string) => env.KEYS.prepare(sql), batch },
    });
    await ban();
    advanceClock(60_000);
    await ban();
    report.isHeld = false;
    await expect.poll(() => events(log())).toContain("keys_database_unavailable");
    await expect.poll(recorded).toMatchObject([{ number: 1 }]);
    await comeToAlarm();
    expect(await recorded()).toMatchObject([{ number: 1 }, { number: 2 }]);
  });

  test("applies without a database, and is reported a minute later, even after a restart", async () => {
    const line = await tapDatabase(name);
    line.isCut = true;
    await ban();
    await expect.poll(() => events(log())).toStrictEqual(["banned", "keys_database_unavailable"]);
    await expect
      .poll(async () => (await limiterStorage(name)).alarmMs)
      .toBe(startMs + 20_000 + 60_000);
    await comeToAlarm();
    expect((await limiterStorage(name)).alarmMs).toBe(Date.now() + 60_000);
    await evictLimiter(name);
    expect(await recorded()).toStrictEqual([]);
    await comeToAlarm();
    expect(await recorded()).toMatchObject([{ keyId, number: 1, liftedAt: null }]);
    expect((await limiterStorage(name)).alarmMs).toBeGreaterThanOrEqual(Date.now() + 3_600_000);
  });
});

describe("a reset", () => {
  test("lifts the ban in the database", async () => {
    await ban();
    await expect.poll(recorded).toHaveLength(1);
    await reset();
    expect(await recorded()).toMatchObject([{ liftedAt: new Date(Date.now()) }]);
  });

  test("lifts a ban that is reported later", async () => {
    const line = await tapDatabase(name);
    line.isCut = true;
    await ban();
    await expect.poll(() => events(log())).toContain("keys_database_unavailable");
    advanceClock(5_000);
    await reset();
    const liftedAt = new Date(Date.now());
    line.isCut = false;
    await comeToAlarm();
    expect(await recorded()).toMatchObject([{ liftedAt }]);
  });

  test("lifts a ban that begins before the limiter knows of the reset", async () => {
    await reset();
    await ban();
    const now = new Date(Date.now());
    await expect.poll(recorded).toMatchObject([{ beganAt: now, liftedAt: now }]);
  });

  test("does not lift a later ban", async () => {
    await reset();
    await ban({ ...POLICY, revision: 1, resets: 1 });
    await expect.poll(recorded).toMatchObject([{ number: 1, liftedAt: null }]);
  });
});

test.for([
  ["log", ["would_ban"]],
  ["off", []],
] as const)(
  "with BAN_MODE=%s, no key is banned and no ban is stored in the database",
  async ([mode, expected]) => {
    const answers = await runInDurableObject(limiterNamed(name), async (_, state) => {
      const limiter = new RateLimiter(state, { ...env, BAN_MODE: mode } as Cloudflare.Env);
      for (let n = 0; n < 4; n++) await limiter.admit(POLICY);
      advanceClock(20_000);
      return Promise.all(Array.from({ length: 100 }, () => limiter.admit(POLICY)));
    });
    expect(new Set(answers.map(({ banned }) => banned))).toStrictEqual(new Set([false]));
    expect(events(log())).toStrictEqual(expected);
    const until = new Date(startMs + 80_000).toISOString();
    for (const line of log()) expect(line).toMatchObject({ keyId, number: 1, until });
    await evictLimiter(name);
    await comeToAlarm();
    expect(await recorded()).toStrictEqual([]);
    expect(await drizzle(env.KEYS).select().from(keyUsage)).toMatchObject([
      { admitted: 3, bans: 0 },
    ]);
  },
);
