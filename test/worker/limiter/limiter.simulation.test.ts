import fc from "fast-check";
import { expect, test } from "vitest";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { anyBanVars, event, oneOf, step, type Step } from "../../rules/limits/histories.ts";
import { keyPolicy } from "../../rules/limits/simulated-limiter.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../support/clock.ts";
import {
  callsAreRepeatedInTime,
  isolatesRepeatOnlyRefusals,
  objectFollowsTheRules,
} from "./invariants.ts";
import { FATES, PERFECT, simulateTime, TIMEOUT_MS, type Wire, World } from "./world.ts";

const ALL = [0, 1, 2];

/** Limits with which either window may fill first. */
const anyLimits = fc.record({
  perMinute: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 20, max: 60 })),
  perDay: fc.oneof(fc.integer({ min: 1, max: 25 }), fc.integer({ min: 40, max: 90 })),
});

const anyIsolate = fc.constantFrom(...ALL);

const anyLatency = fc.oneof(fc.constant(0), fc.nat(300), fc.nat(300), fc.nat(2_400));

const anyFate = fc.constantFrom(...(Object.keys(FATES) as Wire["fate"][]));

const anyWire: fc.Arbitrary<Wire> = fc.record({
  outMs: anyLatency,
  backMs: anyLatency,
  fate: fc.oneof(
    { weight: 8, arbitrary: fc.constant("answer" as const) },
    { weight: 5, arbitrary: anyFate },
  ),
});

const someTime = fc.oneof(
  fc.integer({ min: 0, max: 5_000 }),
  fc.integer({ min: 20_000, max: 65_000 }),
  fc.constantFrom(1_000, 3_000, 10_000, 60_000, HOUR_MS, DAY_MS - 1, DAY_MS),
);

const overlappingRequests = step(
  "requests",
  fc.record({
    isolate: anyIsolate,
    times: fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 40 })),
    gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2_500 })),
    wires: fc.array(anyWire, { minLength: 1, maxLength: 6 }),
    /** True if the isolate learns of a new version of the key between these requests. */
    learns: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, fc.constant(true)),
  }),
  async (world: World, { isolate, times, gapMs, wires, learns }) => {
    world.wires = [...wires];
    for (let n = 0; n < times; n++) {
      if (n > 0 && gapMs > 0) await world.advance(gapMs);
      if (learns && n === times >> 1) {
        world.change({});
        world.learn(isolate);
      }
      void world.send(isolate);
    }
    await world.advance(0);
  },
);

const goToTheRetryTime = step(
  "go to the retry time",
  fc.constantFrom(-1_000, -1, 0, 1),
  async (world: World, offsetMs) => {
    const { minute, day, ban } = world.stored.limiter ?? {};
    const ends = [(minute?.openedMs ?? 0) + MINUTE_MS, (day?.openedMs ?? 0) + DAY_MS];
    const next = [...ends, ban?.untilMs ?? 0].filter((endMs) => endMs > world.objectMs);
    const waitMs = Math.min(...next) + offsetMs - world.objectMs;
    if (Number.isFinite(waitMs) && waitMs > 0) await world.advance(waitMs);
  },
);

const changes = fc.oneof<fc.Arbitrary<Step<World>>[]>(
  step("change the plan", anyLimits, (world, limits) => world.change({ limits })),
  step("deploy other limits to an isolate", fc.tuple(anyLimits, anyIsolate), (world, of) => {
    world.newest = { ...world.newest, limits: of[0] };
    world.learn(of[1]);
  }),
  event("reset", (world) => world.change({ resets: world.newest.resets + 1 })),
  step("learn", anyIsolate, (world, isolate) => world.learn(isolate)),
  step("learn", anyIsolate, (world, isolate) => world.learn(isolate)),
  step("restart", anyIsolate, (world, isolate) => world.restart(isolate)),
  event("kill", (world) => world.kill()),
  event("run the alarm too early", (world) => world.runAlarm()),
  event("cut the database", (world) => world.cutDatabase()),
  step("break the disk", fc.constantFrom("put" as const, "sync" as const), (world, part) => {
    world.brokenDisk = world.brokenDisk === null ? part : null;
  }),
  step("set a clock back", anyIsolate, async (world, isolate) => {
    await world.drain();
    // A call that nobody waits for any more may still be under way.
    await world.advance(3 * TIMEOUT_MS);
    world.isolates[isolate]!.skewMs -= 10 * DAY_MS;
  }),
  step(
    "move the object's clock",
    // Negative values can set the clock back to before a window began.
    fc.constantFrom(-5_000, -1, 1, 4_000, -30_000, -90_000, -2 * HOUR_MS, HOUR_MS),
    (world, ms) => world.moveObjectClock(ms),
  ),
);

/** Any events on any isolate. Calls overlap, are delayed and fail. */
const anyHistory = fc.array(
  oneOf<World>(
    [10, overlappingRequests],
    [3, step("pass time", someTime, (world, ms) => world.advance(ms))],
    [3, goToTheRetryTime],
    [5, changes],
  ),
  { maxLength: 25, size: "max" },
);

const anyWorld = fc.record({
  policy: anyLimits.map(({ perMinute, perDay }) => keyPolicy(perMinute, perDay)),
  vars: anyBanVars,
  skewsMs: fc.tuple(...ALL.map(() => fc.constantFrom(0, 0, -1, 137, -5_000, 40_000))),
  /** With 200 ms, a retry can arrive while the first write runs. */
  diskMs: fc.constantFrom(3, 200),
  /** The isolates that are asked in the end, before and after a wait. */
  told: anyIsolate,
  asked: anyIsolate,
});

simulateTime();

test("several isolates and a Durable Object keep every promise, whatever happens to calls, clocks, versions, disk and database", async () => {
  const seen = { waited: 0, grouped: 0, memory: 0, object: 0, fallback: 0, nobody: 0 };
  await fc.assert(
    fc.asyncProperty(anyWorld, anyHistory, async (of, history) => {
      const world = new World(of.policy, of.skewsMs, of.vars);
      world.diskMs = of.diskMs;
      for (const { play } of history) await play(world);
      await world.drain();
      world.recover();
      world.learn(...ALL);
      await world.advance(2 * TIMEOUT_MS);
      seen.waited += Number(await admitsAfterRetryAfter(world, of.told, of.asked));
      await endsAndIsFreed(world);
      const decided = objectFollowsTheRules(world);
      const counts = isolatesRepeatOnlyRefusals(world);
      callsAreRepeatedInTime(world);
      expect(world.overlappingWrites).toBe(0);
      const calls = world.history.filter(({ what }) => what === "attempt").length;
      seen.grouped += Number(decided > calls);
      for (const by of ["memory", "object", "fallback", "nobody"] as const) seen[by] += counts[by];
    }),
    { numRuns: 120 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(20);
}, 120_000);

/** A client that waits exactly `Retry-After` is admitted. Returns whether one had to wait. */
async function admitsAfterRetryAfter(world: World, told: number, asked: number) {
  const { decision, decidedBy } = await world.answerTo(told);
  if (decision === null || decision.admitted) return false;
  if (world.wasClockSet && decidedBy === "memory") return false;
  // Skip if refusals by other isolates have led to a ban that this isolate does not know yet.
  const bannedUntilMs = world.stored.limiter?.ban?.untilMs ?? 0;
  if (bannedUntilMs > world.objectMs && !decision.banned) return false;
  await world.advance(retryAfterSeconds(decision) * 1_000);
  const next = await world.answerTo(world.wasClockSet ? told : asked);
  expect(next.decision).toMatchObject({ admitted: true });
  return true;
}

/** Every isolate calls the object again and has logged the end of its outages. An idle object deletes its disk. */
async function endsAndIsFreed(world: World) {
  await world.advance(2 * DAY_MS);
  for (const index of ALL) {
    expect((await world.answerTo(index)).decidedBy).toBe("object");
    for (const pair of [
      ["fallback_limiter_on", "fallback_limiter_off"],
      ["limiter_overloaded", "limiter_not_overloaded"],
    ]) {
      const found = world.isolates[index]!.events.filter((one) => pair.includes(one));
      expect(found.length % 2).toBe(0);
      expect(found).toStrictEqual(found.map((_, n) => pair[n % 2]));
    }
  }
  await world.advance(2 * DAY_MS);
  expect([world.alarmMs, world.stored.limiter]).toStrictEqual([null, null]);
}

test("after a report succeeded, the database says what was counted, also if the report runs over midnight", async () => {
  const gapsMs = fc.array(fc.nat(4_000), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: -70_000, max: 5_000 }), gapsMs, async (beforeMs, gaps) => {
      const world = new World(keyPolicy(20, 1_000), [0]);
      await world.advance(DAY_MS - (world.nowMs % DAY_MS) + beforeMs);
      void world.send(0);
      // The report runs for 5 seconds, a minute after the first request.
      await world.advance(58_000);
      for (const gapMs of gaps) {
        void world.send(0);
        await world.advance(gapMs);
      }
      await world.drain();
      await world.advance(2 * HOUR_MS);
      objectFollowsTheRules(world);
    }),
    { numRuns: 50 },
  );
});

test("a refusal lasts no longer if the isolate's clock is set back while it waits for the decision", async () => {
  const world = new World(keyPolicy(1, 10), [0]);
  world.wires = [{ ...PERFECT, outMs: 100 }];
  for (const setBackMs of [0, DAY_MS]) {
    void world.send(0);
    await world.advance(50);
    world.isolates[0]!.skewMs -= setBackMs;
    await world.drain();
  }
  await world.advance(MINUTE_MS);
  expect((await world.answerTo(0)).decision).toMatchObject({ admitted: true });
});

test("of requests that share a call, the last refusal is remembered", async () => {
  const world = new World(keyPolicy(10, 100), [0]);
  world.wires = [{ ...PERFECT, outMs: 50 }];
  // Eight calls may be under way, so the other requests share the ninth: two are admitted.
  for (let n = 0; n < 14; n++) void world.send(0);
  await world.drain();
  expect((await world.answerTo(0)).decidedBy).toBe("memory");
  // Not for other limits, and not from before it was received, as a clock that was set back says.
  const { policy } = world.isolates[0]!;
  world.isolates[0]!.policy = { ...policy, limits: { perMinute: 9, perDay: 100 } };
  expect((await world.answerTo(0)).decidedBy).toBe("object");
  expect((await world.answerTo(0)).decidedBy).toBe("memory");
  world.isolates[0]!.skewMs -= DAY_MS;
  expect((await world.answerTo(0)).decidedBy).toBe("object");
});

test("a refusal is reported if no call was sent, because the object may have counted it otherwise", async () => {
  const world = new World(keyPolicy(1, 10), [0], { BAN_MIN_STRIKES: 2, BAN_MAX_STRIKES: 2 });
  for (const waitMs of [0, 10_000]) {
    await world.answerTo(0);
    await world.advance(waitMs);
  }
  // The first call fails, and the next two are not sent.
  world.wires = [{ ...PERFECT, fate: "error" }];
  for (let n = 0; n < 3; n++) expect((await world.answerTo(0)).decidedBy).toBe("memory");
  world.recover();
  await world.advance(1_000);
  await world.answerTo(0);
  expect(world.history.findLast(({ what }) => what === "arrival")).toMatchObject({ refusals: 2 });
});
