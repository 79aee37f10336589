import fc from "fast-check";
import { expect, test } from "vitest";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import type { Limits } from "../../../src/rules/limits/plans.ts";
import { anyBanVars, event, oneOf, step } from "../../rules/limits/histories.ts";
import { keyPolicy } from "../../rules/limits/simulated-limiter.ts";
import { DAY_MS, HOUR_MS } from "../../support/clock.ts";
import {
  callsAreRepeatedInTime,
  isolatesRepeatOnlyRefusals,
  objectFollowsTheRules,
} from "./invariants.ts";
import { FATES, PERFECT, simulateTime, TIMEOUT_MS, type Wire, World } from "./world.ts";

const ISOLATES = 3;
const ALL = [0, 1, 2];

/** Limits with which either window may fill first. */
const anyLimits: fc.Arbitrary<Limits> = fc.record({
  perMinute: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 20, max: 60 })),
  perDay: fc.oneof(fc.integer({ min: 1, max: 25 }), fc.integer({ min: 40, max: 90 })),
});

const anyIsolate = fc.nat({ max: ISOLATES - 1 });

const anyLatency = fc.oneof(fc.constant(0), fc.nat(300), fc.nat(300), fc.nat(2_400));

const anyWire: fc.Arbitrary<Wire> = fc.record({
  outMs: anyLatency,
  backMs: anyLatency,
  fate: fc.oneof(
    { weight: 8, arbitrary: fc.constant("answer" as const) },
    { weight: 5, arbitrary: fc.constantFrom(...(Object.keys(FATES) as Wire["fate"][])) },
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
    const ends = [
      (minute?.openedMs ?? 0) + 60_000,
      (day?.openedMs ?? 0) + DAY_MS,
      ban?.untilMs ?? 0,
    ].filter((endMs) => endMs > world.objectMs);
    const nextMs = Math.min(...ends) + offsetMs - world.objectMs;
    if (Number.isFinite(nextMs) && nextMs > 0) await world.advance(nextMs);
  },
);

const changes = oneOf<World>(
  [1, step("change the plan", anyLimits, (world, limits) => world.change({ limits }))],
  [
    1,
    step(
      "deploy other limits to an isolate",
      fc.record({ limits: anyLimits, isolate: anyIsolate }),
      (world, { limits, isolate }) => {
        world.newest = { ...world.newest, limits };
        world.learn(isolate);
      },
    ),
  ],
  [1, event("reset", (world) => world.change({ resets: world.newest.resets + 1 }))],
  [3, step("learn", anyIsolate, (world, isolate) => world.learn(isolate))],
);

const losses = oneOf<World>(
  [1, step("restart", anyIsolate, (world, isolate) => world.restart(isolate))],
  [1, event("kill", (world) => world.kill())],
  [1, event("cut the database", (world) => void (world.isDatabaseCut = !world.isDatabaseCut))],
  [
    1,
    step("break the disk", fc.constantFrom("put" as const, "sync" as const), (world, part) => {
      world.brokenDisk = world.brokenDisk === null ? part : null;
    }),
  ],
  [
    1,
    step("set a clock back", anyIsolate, async (world, isolate) => {
      await world.drain();
      // A call that nobody waits for any more may still be under way.
      await world.advance(3 * TIMEOUT_MS);
      world.isolates[isolate]!.skewMs -= 10 * DAY_MS;
    }),
  ],
  [
    1,
    step(
      "move the object's clock",
      fc.oneof(
        fc.integer({ min: -5_000, max: 5_000 }),
        // Negative values can set the clock back to before a window began.
        fc.constantFrom(-30_000, -90_000, -2 * HOUR_MS, HOUR_MS),
      ),
      (world, ms) => world.moveObjectClock(ms),
    ),
  ],
);

/** Any events on any isolate. Calls overlap, are delayed and fail. */
const anyHistory = fc.array(
  oneOf<World>(
    [10, overlappingRequests],
    [3, step("pass time", someTime, (world, ms) => world.advance(ms))],
    [3, goToTheRetryTime],
    [2, changes],
    [3, losses],
  ),
  { maxLength: 25, size: "max" },
);

const anyWorld = fc
  .record({
    limits: anyLimits,
    vars: anyBanVars,
    skewsMs: fc.array(fc.constantFrom(0, 0, -1, 137, -5_000, 40_000), {
      minLength: ISOLATES,
      maxLength: ISOLATES,
    }),
    /** With 200 ms, a retry can arrive while the first write runs. */
    diskMs: fc.constantFrom(3, 200),
  })
  .map((of) => ({ ...of, policy: keyPolicy(of.limits.perMinute, of.limits.perDay) }));

simulateTime();

test("several isolates and a Durable Object keep every promise, whatever happens to calls, clocks, versions, disk and database", async () => {
  const seen = { waited: 0, grouped: 0, memory: 0, object: 0, fallback: 0, nobody: 0 };
  const anyEnd = fc.record({ told: anyIsolate, asked: anyIsolate });
  await fc.assert(
    fc.asyncProperty(anyWorld, anyHistory, anyEnd, async (of, history, end) => {
      const world = new World(of.policy, of.skewsMs, of.vars);
      world.diskMs = of.diskMs;
      for (const { play } of history) await play(world);
      await world.drain();
      seen.waited += Number(await recoversAndAdmits(world, end));
      const decided = objectFollowsTheRules(world);
      const counts = isolatesRepeatOnlyRefusals(world);
      callsAreRepeatedInTime(world);
      expect(world.overlappingWrites).toBe(0);
      seen.grouped += Number(
        decided > world.history.filter(({ what }) => what === "attempt").length,
      );
      for (const by of ["memory", "object", "fallback", "nobody"] as const) seen[by] += counts[by];
    }),
    { numRuns: 120 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(20);
}, 120_000);

/**
 * Lets all parts recover. Then a client that waits exactly `Retry-After` is admitted, every isolate
 * calls the object again and has logged the end of its outages, and an idle object deletes its disk.
 *
 * @returns whether a client waited for a `Retry-After`.
 */
async function recoversAndAdmits(world: World, end: { told: number; asked: number }) {
  world.recover();
  world.learn(...ALL);
  await world.advance(2 * TIMEOUT_MS);
  const hasWaited = await admitsAfterRetryAfter(world, end);
  await world.advance(2 * DAY_MS);
  for (const index of ALL) {
    expect((await world.answerTo(index)).decidedBy).toBe("object");
    const { events } = world.isolates[index]!;
    for (const pair of [
      ["fallback_limiter_on", "fallback_limiter_off"],
      ["limiter_overloaded", "limiter_not_overloaded"],
    ]) {
      const found = events.filter((one) => pair.includes(one));
      const isPaired = found.every((one, n) => one === pair[n % 2]) && found.length % 2 === 0;
      if (!isPaired) expect(found).toStrictEqual(pair);
    }
  }
  await world.advance(2 * DAY_MS);
  expect([world.alarmMs, world.stored.limiter]).toStrictEqual([null, null]);
  return hasWaited;
}

async function admitsAfterRetryAfter(world: World, { told, asked }: Record<string, number>) {
  const { decision, decidedBy } = await world.answerTo(told!);
  if (decision === null || decision.admitted) return false;
  if (world.wasClockSet && decidedBy === "memory") return false;
  // Skip if refusals by other isolates have led to a ban that this isolate does not know yet.
  const bannedUntilMs = world.stored.limiter?.ban?.untilMs ?? 0;
  if (bannedUntilMs > world.objectMs && !decision.banned) return false;
  await world.advance(retryAfterSeconds(decision) * 1_000);
  const next = await world.answerTo(world.wasClockSet ? told! : asked!);
  expect(next.decision).toMatchObject({ admitted: true });
  return true;
}

test("after a report succeeded, the database says what was counted, also if the report runs over midnight", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: -70_000, max: 5_000 }),
      fc.array(fc.integer({ min: 0, max: 4_000 }), { maxLength: 12 }),
      async (beforeMs, gapsMs) => {
        const world = new World(keyPolicy(20, 1_000), [0]);
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
        objectFollowsTheRules(world);
      },
    ),
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
  await world.advance(60_000);
  expect((await world.answerTo(0)).decision).toMatchObject({ admitted: true });
});
