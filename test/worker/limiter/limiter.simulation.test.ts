import fc from "fast-check";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/rules/config.ts";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { WindowsModel } from "../../rules/limits/limits-model.ts";
import { anyBanPolicy } from "../../rules/limits/histories.ts";
import { keyPolicy } from "../../rules/limits/simulated-limiter.ts";
import { anyHistory, anyLimits, ISOLATES } from "./histories.ts";
import { PERFECT, simulateTime, TIMEOUT_MS, World } from "./world.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../support/clock.ts";

const anySkews = fc.array(fc.constantFrom(0, 0, -1, 137, -5_000, 40_000), {
  minLength: ISOLATES,
  maxLength: ISOLATES,
});

/** The duration of a disk write. With 200 ms, a retry can arrive while the first write runs. */
const anyDiskMs = fc.constantFrom(3, 200);

const anyEnd = fc.record({ told: fc.nat(ISOLATES - 1), asked: fc.nat(ISOLATES - 1) });

const anyPolicy = anyLimits.map(({ perMinute, perDay }) => keyPolicy(perMinute, perDay));

// The tests call `expect` only if values differ, because `expect` is slower than a decision.

simulateTime();

test("several isolates and a Durable Object keep every promise, whatever happens to calls, clocks, versions, disk and database", async () => {
  const seen = { decided: 0, memory: 0, fallback: 0, nobody: 0, grouped: 0, waited: 0 };
  await fc.assert(
    fc.asyncProperty(
      anyPolicy,
      anyBanPolicy,
      anySkews,
      anyHistory,
      anyDiskMs,
      anyEnd,
      async (policy, bans, skewsMs, history, diskMs, end) => {
        const world = new World(policy, bans, skewsMs);
        world.diskMs = diskMs;
        for (const step of history) {
          const { length } = world.exchanges;
          await step.play(world);
          for (const exchange of world.exchanges.slice(length)) checkRefusal(world, exchange);
        }
        await world.drain();
        world.checkRetries();
        seen.waited += Number(await checkEnd(world, end));
        checkExactness(world);
        checkFallback(world);
        checkCounts(world);
        expect(world.mostWritesAtOnce).toBeLessThanOrEqual(1);
        expect(world.longestRetryMs).toBeLessThanOrEqual(60_000);
        seen.decided += world.rulings.length;
        for (const { decidedBy } of world.exchanges) {
          if (decidedBy !== "object") seen[decidedBy] += 1;
        }
        seen.grouped += Number(world.rulings.length > world.calls);
      },
    ),
    { numRuns: 200 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(20);
}, 120_000);

type Exchange = World["exchanges"][number];

/**
 * Checks that a refusal from memory does not outlast the refusal that it repeats, and announces its
 * end: never too early, and at most a second too late.
 */
function checkRefusal(world: World, { decidedBy, isolate, atMs, decision }: Exchange): void {
  if (decidedBy !== "memory") return;
  const delivered = world.delivered.filter((one) => one.isolate === isolate && atMs < one.untilMs);
  if (delivered.length === 0) expect.fail("A refusal from memory has outlived its end.");
  const waitMs = decision!.retryAtMs! - decision!.nowMs;
  const lateMs = delivered.map(({ retryMs }) => atMs + waitMs - retryMs);
  if (!lateMs.some((ms) => ms >= 0 && ms <= 1_000)) expect(lateMs).toStrictEqual([0]);
}

/** Checks that the Durable Object admits exactly the requests for which the windows have room. */
function checkExactness(world: World): void {
  const windows = new WindowsModel();
  let banMs = 0;
  for (const ruling of world.rulings) {
    if (!("nowMs" in ruling)) {
      windows.restore(ruling.limiter);
      continue;
    }
    const { policy, nowMs, decision } = ruling;
    // Nobody is told to wait longer than a window or the ban is long, whichever way the clock moves.
    if (ruling.newBan !== null) banMs = ruling.newBan.untilMs - nowMs;
    const longestMs = Math.max(
      decision.banned ? banMs : 0,
      decision.day.remaining === 0 ? DAY_MS : MINUTE_MS,
    );
    if (decision.retryAtMs !== null && decision.retryAtMs - nowMs > longestMs) {
      expect(decision.retryAtMs - nowMs).toBeLessThanOrEqual(longestMs);
    }
    const hasRoom = windows.hasRoom(policy, nowMs);
    if (!decision.banned && decision.admitted !== hasRoom) expect(decision.admitted).toBe(hasRoom);
    if (decision.admitted) windows.admit(nowMs);
  }
  expect(world.faults).toStrictEqual([]);
}

/** Checks that no isolate's fallback limiter admits more than the limits. */
function checkFallback(world: World): void {
  const byLife = Map.groupBy(
    world.exchanges.filter(({ decidedBy }) => decidedBy === "fallback"),
    ({ isolate, life }) => `${isolate}.${life}`,
  );
  for (const exchanges of byLife.values()) {
    const windows = new WindowsModel();
    for (const { policy, decision } of exchanges) {
      const hasRoom = windows.hasRoom(policy, decision!.nowMs);
      if (decision!.admitted && !hasRoom) expect(hasRoom).toBe(true);
      if (decision!.admitted) windows.admit(decision!.nowMs);
    }
  }
}

/** Checks that each refusal from memory is reported exactly once, or not at all after a failure. */
function checkCounts(world: World): void {
  const fromMemory = world.exchanges.filter(({ decidedBy }) => decidedBy === "memory");
  const lost = fromMemory.filter(({ sawFailure }) => sawFailure).length;
  expect(world.reportedRefusals).toBeLessThanOrEqual(fromMemory.length);
  if (world.lostReports > 0 || world.isolates.some(({ life }) => life > 0)) return;
  expect(world.reportedRefusals).toBeGreaterThanOrEqual(fromMemory.length - lost);
}

/**
 * Lets all parts recover, then checks every isolate, the log, the storage and the usage.
 *
 * @returns whether a client waited for a `Retry-After`.
 */
async function checkEnd(world: World, end: { told: number; asked: number }): Promise<boolean> {
  world.recover();
  world.learnAll();
  await world.advance(2 * TIMEOUT_MS);
  const hasWaited = await checkRetryAfter(world, end);
  await world.advance(2 * DAY_MS);
  for (const [index, { part }] of world.isolates.entries()) {
    const { calls } = world;
    const exchange = world.send(index);
    await world.drain();
    const { decidedBy } = await exchange;
    if (world.calls === calls) expect.fail("A request after the recovery was not sent.");
    if (decidedBy !== "object") expect(decidedBy).toBe("object");
    for (const [began, ended] of [
      ["fallback_limiter_on", "fallback_limiter_off"],
      ["limiter_overloaded", "limiter_not_overloaded"],
    ] as const) {
      const events = part.events.filter((event) => event === began || event === ended);
      const isPaired = events.every((event, n) => event === (n % 2 === 0 ? began : ended));
      if (!isPaired || events.length % 2 === 1) expect(events).toStrictEqual([began, ended]);
    }
  }
  await world.advance(2 * DAY_MS);
  if (world.alarmMs !== null || world.stored.limiter !== null) {
    expect.fail("The storage of an idle Durable Object was not deleted.");
  }
  const inObject = world.rulings.filter((ruling) => "nowMs" in ruling);
  const admitted = inObject.filter(({ decision }) => decision.admitted).length;
  const refused = inObject.length - admitted + world.reportedRefusals;
  const strikes = inObject.reduce((all, ruling) => all + ruling.strikes, 0);
  const newBans = inObject.flatMap(({ newBan }) => newBan ?? []);
  const bans = newBans.filter(({ loggedOnly }) => !loggedOnly).length;
  const resets = inObject.filter(({ isReset }) => isReset).length;
  const logged = { banned: bans, would_ban: newBans.length - bans, limiter_reset: resets };
  for (const [event, times] of Object.entries(logged)) {
    const found = world.object.events.filter((one) => one === event).length;
    if (found !== times) expect({ [event]: found }).toEqual({ [event]: times });
  }
  const counted = [admitted, refused, strikes, bans, bans];
  const reported = [0, 0, 0, 0, world.reportedBans.size];
  for (const day of world.reported.values()) day.forEach((total, n) => (reported[n]! += total));
  // A Durable Object that dies may lose refusals, and may count a retry twice. If its clock is set
  // back, the usage of an earlier day may begin at 0 again.
  if (world.kills === 0) expect(admitted + refused).toBeLessThanOrEqual(world.exchanges.length);
  if (world.kills === 0 && !world.wasClockSet) expect(reported).toEqual(counted);
  else expect(reported[0]).toBeLessThanOrEqual(admitted);
  return hasWaited;
}

/** Checks that a client is admitted after exactly `Retry-After` if no other client sends. */
async function checkRetryAfter(
  world: World,
  { told, asked }: { told: number; asked: number },
): Promise<boolean> {
  const refused = world.send(told);
  await world.drain();
  const { decision, decidedBy } = await refused;
  if (decision === null || decision.admitted) return false;
  if (world.wasClockSet && decidedBy === "memory") return false;
  // Skip if refusals by other isolates have led to a ban that this isolate does not know yet.
  const { ban } = world.stored.limiter ?? { ban: null };
  if (ban !== null && ban.untilMs > world.objectMs && !decision.banned) return false;
  await world.advance(retryAfterSeconds(decision) * 1_000);
  const next = world.send(world.wasClockSet ? told : asked);
  await world.drain();
  expect((await next).decision).toMatchObject({ admitted: true });
  return true;
}

test("after a report succeeded, the database says what was counted, also if the report runs over midnight", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: -70_000, max: 5_000 }),
      fc.array(fc.integer({ min: 0, max: 4_000 }), { maxLength: 12 }),
      async (beforeMs, gapsMs) => {
        const world = new World(keyPolicy(20, 1_000), parseConfig({}).bans, [0]);
        await world.advance(DAY_MS - (world.nowMs % DAY_MS) + beforeMs);
        void world.send(0);
        // The report runs for 5 seconds, a minute after the first request.
        await world.advance(58_000);
        for (const gapMs of gapsMs) {
          void world.send(0);
          await world.advance(gapMs);
        }
        await world.drain();
        await world.advance(2 * HOUR_MS);
        const rulings = world.rulings.filter((ruling) => "nowMs" in ruling);
        const days = Map.groupBy(rulings, ({ nowMs }) =>
          new Date(nowMs).toISOString().slice(0, 10),
        );
        const counted = [...days].map(([day, of]) => [
          day,
          of.filter((one) => one.decision.admitted).length,
        ]);
        const reported = [...world.reported].map(([day, [admitted]]) => [day, admitted]);
        expect(reported).toStrictEqual(counted);
      },
    ),
    { numRuns: 100 },
  );
});

test("a refusal lasts no longer if the isolate's clock is set back while it waits for the decision", async () => {
  const world = new World(keyPolicy(1, 10), parseConfig({}).bans, [0]);
  world.wires = [{ ...PERFECT, outMs: 100 }];
  for (const setBackMs of [0, DAY_MS]) {
    void world.send(0);
    await world.advance(50);
    world.isolates[0]!.part.skewMs -= setBackMs;
    await world.drain();
  }
  await world.advance(60_000);
  const next = world.send(0);
  await world.drain();
  expect((await next).decision).toMatchObject({ admitted: true });
});

test("a single refusal that a failed call should have reported is logged", async () => {
  const world = new World(keyPolicy(1, 10), parseConfig({}).bans, [0]);
  for (let request = 1; request <= 3; request++) {
    void world.send(0);
    await world.advance(10);
  }
  world.wires = [{ ...PERFECT, fate: "error" }];
  world.change({});
  world.learnAll();
  void world.send(0);
  await world.advance(10);
  expect(world.isolates[0]!.part.events).toContain("refusals_unreported");
});
