import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test, vi } from "vitest";
import type { QuotaPolicy } from "../../../src/rules/limits/limiter-state.ts";
import type { CallDetails, ObjectDecision } from "../../../src/worker/limiter/object-call.ts";
import { createApiKey } from "../../support/api-key-fixture.ts";
import { advanceClock, DAY_MS, HOUR_MS, stopClock } from "../../support/clock.ts";
import { faultyDatabases, LOST, PASS } from "../../support/faults.ts";
import { evictLimiter, limiterNamed, limiterStorage } from "../../support/limiter.ts";
import { eventLines, events } from "../../support/written-lines.ts";

// limiter.simulation.test.ts simulates a disk. This file tests the real storage, alarms and SQL.

const POLICY: QuotaPolicy = { limits: { perMinute: 3, perDay: 1_000 }, revision: 0, resets: 0 };
const ROOMY = { ...POLICY, limits: { perMinute: 5_000, perDay: 5_000 } };

let keyId: string;
let noonMs: number;

beforeEach(async () => {
  const startMs = stopClock();
  noonMs = Math.ceil(startMs / DAY_MS) * DAY_MS + DAY_MS / 2;
  advanceClock(noonMs - startMs);
  keyId = (await createApiKey()).id;
});

const limiter = () => limiterNamed(`key:${keyId}`);
const storage = () => limiterStorage(`key:${keyId}`);
const evict = () => evictLimiter(`key:${keyId}`);
const alarm = () => runInDurableObject(limiter(), (object) => object.alarm());
const all = async (table: string) =>
  (await env.KEYS.prepare(`SELECT * FROM ${table}`).all()).results;
const usage = () => all("key_usage ORDER BY day");
const bans = () => all("key_bans");

type Sent = Partial<CallDetails> & { policy?: QuotaPolicy; refusals?: number; nonce?: string };

/** Sends requests in one call, like an isolate. Returns the first decision. */
async function admit(sent: Sent = {}): Promise<ObjectDecision> {
  const { policy = POLICY, refusals = 0, nonce = crypto.randomUUID(), ...more } = sent;
  const details = { requests: 1, wait: null, cancels: false, ...more };
  const decisions = await limiter().admit(policy, refusals, nonce, details);
  return (decisions as readonly ObjectDecision[])[0]!;
}

async function comeToAlarm(): Promise<void> {
  advanceClock(Math.max(0, ((await storage()).alarmMs ?? NaN) - Date.now()));
  expect(await runDurableObjectAlarm(limiter())).toBe(true);
}

test("refusals and strikes write nothing, but are not lost with the object once a report has told of them; a ban writes one row, and is logged and stored in the database at once", async () => {
  await admit({ requests: 3 });
  const { rowsWritten } = await storage();
  await admit({ requests: 30 });
  advanceClock(10_000);
  await admit({ requests: 59 });
  expect(await storage()).toMatchObject({ keys: ["record"], rowsWritten });
  const times = { began_at: Date.now(), ends_at: Date.now() + 60_000, lifted_at: null };
  await admit({ requests: 11 });
  expect((await storage()).rowsWritten).toBe(rowsWritten + 1);
  const resetsAt = new Date(noonMs + 60_000).toISOString();
  expect(eventLines()).toStrictEqual([
    { event: "quota_low", keyId, window: "minute", limit: 3, remaining: 0, resetsAt },
    { event: "banned", keyId, number: 1, until: new Date(times.ends_at).toISOString() },
  ]);
  await expect.poll(bans).toStrictEqual([{ key_id: keyId, number: 1, ...times }]);
  for (const refused of [105, 110]) {
    await evict();
    await admit({ requests: 5 });
    await alarm();
    expect(await usage()).toMatchObject([{ admitted: 3, refused, strikes: 60, bans: 1 }]);
  }
});

test("a report comes within a minute of the first admission, within an hour of later ones, and a minute after a failed one; if its alarm never fires, the next admission reports, also after an eviction; the storage is deleted when all windows and the day have ended", async () => {
  const { bindings, script } = faultyDatabases("KEYS");
  await admit({ requests: 2 });
  expect((await storage()).alarmMs).toBe(noonMs + 60_000);
  for (const [after, admitted] of [
    ["the first report of a day", 3],
    ["an eviction", 4],
    ["an alarm that was not set", 5],
    ["a failed report", 6],
    ["an hour", 7],
  ] as const) {
    const { alarmMs } = await storage();
    advanceClock(alarmMs! - Date.now());
    if (after === "an eviction") await evict();
    script.always(after === "a failed report" ? LOST : PASS);
    await runInDurableObject(limiter(), (object, { storage: disk }) => {
      Object.assign(object, { env: { ...env, ...bindings } });
      const setAlarm = vi.spyOn(disk, "setAlarm");
      if (after === "an alarm that was not set") setAlarm.mockRejectedValueOnce(new Error("lost"));
    });
    // A refused request writes nothing, so it causes no report.
    await admit({ policy: ROOMY });
    if (after === "a failed report") await expect.poll(events).toHaveLength(1);
    else await expect.poll(usage).toMatchObject([{ admitted }]);
    const inMs = /failed|not set/.test(after) ? 60_000 : HOUR_MS;
    expect((await storage()).alarmMs, after).toBe(Date.now() + inMs);
  }
  await comeToAlarm();
  expect(await storage()).toMatchObject({ keys: ["record"], alarmMs: noonMs + DAY_MS });
  await evict();
  await comeToAlarm();
  expect(await storage()).toMatchObject({ keys: [], alarmMs: null });
});

test("what a clock that was ahead has counted is of today after the next report, its ban is over, and the storage is kept no longer", async () => {
  const rightMs = Date.now();
  advanceClock(366 * DAY_MS);
  await admit({ requests: 4 });
  advanceClock(20_000);
  // An isolate reports 59 strikes with a request that is the 60th strike.
  await admit({ wait: { ageMs: 20_000, strikes: 59, oldestStrikeAgeMs: 0 }, refusals: 60 });
  await admit({ cancels: true });
  await expect.poll(bans).toHaveLength(1);
  await comeToAlarm();
  expect(await usage()).toMatchObject([{ admitted: 3, bans: 1 }]);
  await evict();
  advanceClock(rightMs + HOUR_MS - Date.now());
  await alarm();
  const ofToday = () => ({ day: new Date().toISOString().slice(0, 10), reported_at: Date.now() });
  expect(await usage()).toMatchObject([{ ...ofToday(), admitted: 3 }]);
  advanceClock(-HOUR_MS + 1_000);
  await alarm();
  expect(await usage()).toMatchObject([{ ...ofToday(), admitted: 3 }]);
  await evict();
  const decision = await admit({ policy: { ...POLICY, limits: { perMinute: 5, perDay: 9 } } });
  // A window keeps its count.
  const kept = { admitted: true, minute: { remaining: 1 }, mayReadReplica: false };
  expect(decision).toMatchObject(kept);
  advanceClock(600_000);
  expect(await admit()).toMatchObject({ mayReadReplica: true });
  await comeToAlarm();
  expect(await usage()).toMatchObject([{ ...ofToday(), admitted: 5, refused: 63, bans: 1 }]);
  expect(await bans()).toMatchObject([{ lifted_at: rightMs + HOUR_MS, number: 1 }]);
  await comeToAlarm();
  await comeToAlarm();
  expect(await storage()).toMatchObject({ keys: [], alarmMs: null });
  expect(Date.now()).toBeLessThan(rightMs + 2 * DAY_MS);
});

test("a report of a limiter that has lost its storage lowers no total", async () => {
  await admit({ policy: ROOMY, requests: 5 });
  await comeToAlarm();
  await runInDurableObject(limiter(), (_, state) => state.storage.deleteAll());
  await evict();
  await admit({ requests: 4 });
  await alarm();
  expect(await usage()).toMatchObject([{ admitted: 5, refused: 1, peak_day: 5, per_minute: 3 }]);
});

test("a note that a key has cancelled costs no row, and keeps the storage until it has ended; a row of an older version counts as one", async () => {
  advanceClock(DAY_MS / 2 - 60_000);
  const mayReadReplica = async (cancels = false) => (await admit({ cancels })).mayReadReplica;
  expect(await mayReadReplica()).toBe(true);
  const { rowsWritten } = await storage();
  expect(await mayReadReplica(true)).toBe(false);
  expect((await storage()).rowsWritten).toBe(rowsWritten + 1);
  advanceClock(600_000);
  expect(await mayReadReplica()).toBe(true);
  // An older version does not store the note.
  await runInDurableObject(limiter(), (_, { storage: { kv } }) => {
    kv.put("record", { ...kv.get<object>("record"), cancelledMs: undefined });
  });
  await evict();
  expect(await mayReadReplica()).toBe(false);
  advanceClock(DAY_MS - 610_000);
  expect(await mayReadReplica(true)).toBe(false);
  // Both windows and the day have ended at midnight.
  advanceClock(80_000);
  await alarm();
  expect((await storage()).keys).toEqual(["record"]);
  advanceClock(520_000);
  await alarm();
  expect((await storage()).keys).toEqual([]);
});

test("a call that is sent again within 10 seconds is counted once, however many calls came between", async () => {
  const first = { policy: ROOMY, nonce: "first" };
  const answer = await admit(first);
  for (let waitedMs = 0; waitedMs < 10_000; waitedMs += 2_500) {
    advanceClock(2_500);
    await Promise.all(Array.from({ length: 50 }, () => admit({ policy: ROOMY })));
  }
  expect(await admit(first)).toEqual(answer);
  expect(await storage()).toMatchObject({ record: { day: { count: 201 } } });
});
