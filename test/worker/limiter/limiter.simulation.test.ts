import fc from "fast-check";
import { expect, test } from "vitest";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { anyBanVars, event, oneOf, step, type Step } from "../../rules/limits/histories.ts";
import { keyPolicy, SimulatedLimiter } from "../../rules/limits/simulated-limiter.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../support/clock.ts";
import { TIMEOUT_MS } from "./witness.ts";
import { FAULTS, simulateTime, type Wire, World } from "./world.ts";

const ALL = [0, 1, 2];

/** Limits with which either window may fill first. */
const anyLimits = fc.record({
  perMinute: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 20, max: 60 })),
  perDay: fc.oneof(fc.integer({ min: 1, max: 25 }), fc.integer({ min: 40, max: 90 })),
});

const anyIsolate = fc.constantFrom(...ALL);

const anyLatency = fc.oneof(fc.constant(0), fc.nat(300), fc.nat(300), fc.nat(2_400));

const anyFault = fc.oneof({ weight: 3, arbitrary: fc.constant({}) }, fc.constantFrom(...FAULTS));

const anyWire: fc.Arbitrary<Wire> = fc
  .tuple(anyLatency, anyLatency, anyFault)
  .map(([outMs, backMs, fault]) => ({ outMs, backMs, ...fault }));

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
  (world: World, offsetMs) => world.advance(Math.max(0, world.retryAtMs + offsetMs - Date.now())),
);

const changes = fc.oneof<fc.Arbitrary<Step<World>>[]>(
  step("change the plan", anyLimits, (world, limits) => world.change({ limits })),
  event("reset", (world) => world.change({ resets: world.newest.resets + 1 })),
  step("learn", fc.subarray(ALL), (world, isolates) => world.learn(...isolates)),
  event("kill", (world) => world.kill()),
  event("cut the database", (world) => {
    world.isDatabaseCut = true;
    setTimeout(() => (world.isDatabaseCut = false), 2 * HOUR_MS);
  }),
  step("break the disk", fc.boolean(), (world, isBroken) => {
    world.isDiskBroken = isBroken;
  }),
);

/** Any events on any isolate. Calls overlap, are delayed and fail. */
const anyHistory = fc.array(
  oneOf<World>(
    [10, overlappingRequests],
    [3, step("pass time", someTime, (world, ms) => world.advance(ms))],
    [3, goToTheRetryTime],
    [4, changes],
  ),
  { maxLength: 25, size: "max" },
);

const anyWorld = fc.record({
  policy: anyLimits.map(({ perMinute, perDay }) => keyPolicy(perMinute, perDay)),
  vars: anyBanVars,
  behindMs: fc.tuple(...ALL.map(() => fc.constantFrom(0, 0, -1, 137, -5_000, 40_000))),
  /** With 200 ms, a retry can arrive while the first write runs. */
  diskMs: fc.constantFrom(3, 200),
  /** The time from the first request to midnight. The first report runs a minute later. */
  midnightMs: fc.oneof(fc.nat(DAY_MS), fc.integer({ min: 60_000, max: 65_000 })),
  /** The isolates that are asked in the end, before and after a wait. */
  told: anyIsolate,
  asked: anyIsolate,
});

simulateTime();

test("several isolates and a Durable Object keep every promise, whatever happens to calls, versions, disk and database", async () => {
  const seen = { waited: 0, memory: 0, object: 0, fallback: 0, nobody: 0 };
  await fc.assert(
    fc.asyncProperty(anyWorld, anyHistory, async (of, history) => {
      const world = new World(of.policy, of.behindMs, of.vars);
      world.diskMs = of.diskMs;
      await world.advance(2 * DAY_MS - (Date.now() % DAY_MS) - of.midnightMs);
      for (const { play } of history) await play(world);
      // Calls that nobody waits for any more may still be under way.
      await world.advance(4 * TIMEOUT_MS);
      world.recover();
      world.learn(...ALL);
      await world.advance(2 * TIMEOUT_MS);
      seen.waited += Number(await admitsAfterRetryAfter(world, of.told, of.asked));
      await endsAndIsFreed(world);
      for (const [by, count] of Object.entries(world.witness.decidedBy)) {
        seen[by as "memory"] += count;
      }
    }),
    { numRuns: 120 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(20);
}, 120_000);

/** A client that waits exactly `Retry-After` is admitted. Returns whether one had to wait. */
async function admitsAfterRetryAfter(world: World, told: number, asked: number) {
  const { decision } = await world.answerTo(told);
  if (decision === null || decision.admitted) return false;
  // Skip if refusals by other isolates have led to a ban that this isolate does not know yet.
  const bannedUntilMs = world.stored?.ban?.untilMs ?? 0;
  if (bannedUntilMs > Date.now() && !decision.banned) return false;
  await world.advance(retryAfterSeconds(decision) * 1_000);
  expect((await world.answerTo(asked)).decision).toMatchObject({ admitted: true });
  return true;
}

/** Every isolate calls the object again and has logged the end of its outages. An idle object deletes its disk. */
async function endsAndIsFreed(world: World) {
  await world.advance(2 * DAY_MS);
  for (const index of ALL) {
    expect((await world.answerTo(index)).decidedBy).toBe("object");
  }
  await world.advance(2 * DAY_MS);
  expect([world.alarmMs, world.stored]).toStrictEqual([null, null]);
  world.witness.ends(world.isolates);
  expect(world.witness.broken).toStrictEqual([]);
}

test("a ban begins exactly with the request that makes its last strike if one isolate receives all; otherwise no earlier", async () => {
  const seen = { bans: 0, missing: 0 };
  const anyRequest = fc.record({
    isolate: anyIsolate,
    gapMs: fc.oneof(fc.nat(1_000), fc.nat(4_000), fc.constantFrom(10_000, MINUTE_MS)),
    isKilled: fc.nat(20).map((draw) => draw === 0),
  });
  const anyRequests = fc.array(anyRequest, { maxLength: 60, size: "max" });
  await fc.assert(
    fc.asyncProperty(fc.boolean(), anyRequests, async (isOne, requests) => {
      const world = new World(keyPolicy(1, 1_000), ALL, { BAN_MIN_STRIKES: 7, BAN_MAX_STRIKES: 7 });
      const direct = new SimulatedLimiter(keyPolicy(1, 1_000), world.bans);
      let firstStrikeMs = 0;
      for (const { isolate, gapMs, isKilled } of requests) {
        await world.advance(gapMs);
        if (isKilled && !isOne) world.kill();
        const answer = world.answerTo(isOne ? 0 : isolate);
        direct.nowMs = Date.now();
        const { decision, strikes } = direct.decide(direct.policy);
        const { admitted, banned } = (await answer).decision!;
        if (decision.admitted) firstStrikeMs = 0;
        else if (strikes > 0) firstStrikeMs ||= direct.nowMs;
        expect(admitted).toBe(decision.admitted);
        const isOneSeries = direct.nowMs - firstStrikeMs < MINUTE_MS;
        if (isOne && isOneSeries) expect(banned).toBe(decision.banned);
        else expect(decision.banned || !banned).toBe(true);
        if (!decision.banned) continue;
        seen[banned ? "bans" : "missing"] += 1;
        return;
      }
    }),
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(10);
});

test("a loop of 3 requests a second over 10 isolates is banned within the minute", async () => {
  const world = new World(keyPolicy(60, 1_000), Array(10).fill(0));
  let requests = 1;
  for (; !(await world.answerTo(requests % 10)).decision!.banned; requests++) {
    await world.advance(327);
  }
  expect(requests).toBeLessThanOrEqual(180);
});

test("an isolate reports a strike with the first request after 3 seconds", async () => {
  const world = new World(keyPolicy(1, 10), [0]);
  world.diskMs = 0;
  for (const [waitMs, by] of [
    [0, "object"],
    [0, "object"],
    [10_000, "memory"],
    [2_999, "memory"],
    [1, "object"],
  ] as const) {
    await world.advance(waitMs);
    expect((await world.answerTo(0)).decidedBy).toBe(by);
  }
});
