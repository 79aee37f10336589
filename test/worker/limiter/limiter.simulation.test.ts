import fc from "fast-check";
import { beforeEach, expect, test, vi } from "vitest";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { DocumentedRules } from "../../rules/limits/documented-rules.ts";
import { anyBanVars, event, oneOf, step, type Step } from "../../rules/limits/histories.ts";
import { keyPolicy, START_MS } from "../../rules/limits/simulated-limiter.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../support/clock.ts";
import { TIMEOUT_MS } from "./witness.ts";
import { FAULTS, PERFECT, type Wire, World } from "./world.ts";

const ALL = [0, 1, 2];

/** Half a minute before midnight in UTC. */
const EVENING_MS = START_MS + 16 * HOUR_MS - MINUTE_MS / 2;

/** Limits with which either window may fill first. */
const anyLimits = fc.record({
  perMinute: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 20, max: 60 })),
  perDay: fc.oneof(fc.integer({ min: 1, max: 25 }), fc.integer({ min: 40, max: 90 })),
});

const anyIsolate = fc.constantFrom(...ALL);

const anyLatency = fc.oneof(fc.constantFrom(0, 1_000), fc.nat(300), fc.nat(300), fc.nat(2_000));

const anyFault = fc.oneof({ weight: 3, arbitrary: fc.constant({}) }, fc.constantFrom(...FAULTS));

type Milliseconds = fc.Arbitrary<number>;

const manyCalls = (outMs: Milliseconds, backMs: Milliseconds, fault: fc.Arbitrary<Partial<Wire>>) =>
  fc.array(
    fc.record({ outMs, backMs, fault }).map((of): Wire => ({ ...of, ...of.fault })),
    { minLength: 1, maxLength: 6 },
  );

const anyWires = manyCalls(anyLatency, anyLatency, anyFault);

/** Reports to the database are lost, before or after it has them, or arrive after later ones. */
const anyReports = manyCalls(
  fc.constantFrom(0, 300, 15_000, 2 * HOUR_MS),
  fc.constantFrom(0, 300, 3_000),
  fc.constantFrom({}, { error: {} }, { error: {}, before: "call" }),
);

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
    cancels: fc.boolean(),
    looks: fc.boolean(),
    wires: anyWires,
  }),
  async (world: World, { isolate, times, gapMs, cancels, looks, wires }) => {
    world.wires = [...wires];
    for (let n = 0; n < times; n++) {
      if (n > 0 && gapMs > 0) await world.advance(gapMs);
      // Requests before and after this one may share a call.
      if (n === 15) world.learn(isolate);
      void world.send(isolate, cancels && n % 3 === 0);
      if (looks && n % 2 === 0) void world.look(isolate);
    }
    await world.advance(0);
  },
);

const lost: Wire = { ...PERFECT, error: {}, before: "call" };

const goToTheRetryTime = step(
  "go to the retry time",
  fc.constantFrom(-1_000, -1, 0, 1),
  (world: World, offsetMs) => world.advance(Math.max(0, world.retryAtMs + offsetMs - Date.now())),
);

/** While a report runs, which the next report overlaps, 30 requests suffice for a ban. */
const disturbReports = step(
  "disturb reports",
  fc.record({
    reports: anyReports,
    requests: fc.constantFrom(0, 0, 30),
  }),
  async (world: World, { reports, requests }) => {
    world.reports = [...reports];
    if (requests > 0) world.wakeObject();
    for (let n = 0; n < requests; n++) {
      void world.send(0);
      await world.advance(100);
    }
  },
);

const changes = fc.oneof<fc.Arbitrary<Step<World>>[]>(
  event("reset", (world) => world.change({ resets: world.newest.resets + 1 })),
  step("change the plan", fc.tuple(anyLimits, fc.boolean()), (world, [limits, isKnown]) => {
    world.change({ limits });
    if (isKnown) world.learn(...ALL);
  }),
  step("learn", fc.subarray(ALL), (world, isolates) => world.learn(...isolates)),
  event("kill", (world) => world.kill()),
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
    [3, disturbReports],
    [5, changes],
  ),
  { maxLength: 25, size: "max" },
);

const anyWorld = fc.record({
  policy: anyLimits.map(({ perMinute, perDay }) => keyPolicy(perMinute, perDay)),
  vars: anyBanVars,
  behindMs: fc.tuple(...ALL.map(() => fc.constantFrom(0, 0, -1, 137, -5_000, 40_000))),
  /** With 200 ms, a retry can arrive while the first write runs. */
  diskMs: fc.constantFrom(3, 200),
});

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: EVENING_MS });
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});

test("several isolates and a Durable Object keep every promise, whatever happens to calls, versions and disk; a look counts nothing, and says what the isolate's next request meets", async () => {
  const parts = { memory: 0, object: 0, fallback: 0, nobody: 0 };
  const looks = { admitted: 0, refused: 0, banned: 0 };
  const seen = { waited: 0, replicas: 0, ...parts, ...looks };
  await fc.assert(
    fc.asyncProperty(anyWorld, anyHistory, async (planned, history) => {
      const { policy, behindMs, vars, diskMs } = planned;
      vi.clearAllTimers();
      vi.setSystemTime(EVENING_MS);
      const world = Object.assign(new World(policy, behindMs, vars), { diskMs });
      for (const { play } of history) await play(world);
      // Calls that nobody waits for any more may still be under way. Then every fault ends.
      await world.advance(4 * TIMEOUT_MS);
      Object.assign(world, { wires: [PERFECT], isDiskBroken: false });
      world.learn(...ALL);
      await world.advance(2 * TIMEOUT_MS);
      for (const index of [...ALL, ...ALL]) {
        await world.advance(1_000);
        const said = (await world.look(index))!;
        const met = (await world.answerTo(index)).decision!;
        const rules = DocumentedRules.after(said, world.newest, said.nowMs);
        const { decision } = rules.request(world.newest, world.bans, met.nowMs);
        const { admitted, minute, day, banned, retryAtMs } = decision;
        // The last strike may have begun a ban.
        if (met.banned === banned) expect(met).toMatchObject({ admitted, minute, day, retryAtMs });
        else expect([admitted, met.banned]).toEqual([false, true]);
        seen[banned ? "banned" : admitted ? "admitted" : "refused"] += 1;
      }
      const { decision } = await world.answerTo(0);
      // Refusals by other isolates may have led to a ban that this isolate does not know yet.
      const isBanned = (world.stored.limiter?.ban?.untilMs ?? 0) > Date.now();
      if (decision?.admitted === false && decision.banned === isBanned) {
        await world.advance(retryAfterSeconds(decision) * 1_000);
        expect((await world.answerTo(1)).decision).toMatchObject({ admitted: true });
        seen.waited += 1;
      }
      await world.advance(2 * DAY_MS);
      for (const index of ALL) expect((await world.answerTo(index)).decidedBy).toBe("object");
      await world.advance(3 * HOUR_MS);
      world.witness.ends(world.isolates, world.usage);
      expect(world.witness.broken).toStrictEqual([]);
      const { replicas, decidedBy } = world.witness;
      for (const [name, count] of Object.entries({ replicas, ...decidedBy })) {
        seen[name as "memory"] += count;
      }
    }),
    { numRuns: 120 },
  );
  expect(Math.min(...Object.values(seen)), JSON.stringify(seen)).toBeGreaterThan(2);
});

test("a ban begins exactly with the request that makes its last strike if one isolate receives all; otherwise no earlier", async () => {
  const anyRequest = fc.record({
    isolate: anyIsolate,
    gapMs: fc.oneof(fc.nat(1_000), fc.nat(4_000), fc.constantFrom(10_000, MINUTE_MS)),
  });
  const anyRequests = fc.array(anyRequest, { maxLength: 60, size: "max" });
  await fc.assert(
    fc.asyncProperty(fc.boolean(), anyRequests, async (isOne, requests) => {
      const world = new World(keyPolicy(1, 1_000), ALL, { BAN_MIN_STRIKES: 7, BAN_MAX_STRIKES: 7 });
      const direct = new DocumentedRules();
      for (const { isolate, gapMs } of requests) {
        await world.advance(gapMs);
        if (gapMs === 10_000 && !isOne) world.kill();
        const answer = world.answerTo(isOne ? 0 : isolate);
        const { decision } = direct.request(world.newest, world.bans, Date.now());
        const { admitted, banned } = (await answer).decision!;
        expect(admitted).toBe(decision.admitted);
        if (isOne || banned) expect(banned).toBe(decision.banned);
        if (decision.banned) return;
      }
    }),
  );
});

test("a loop of 3 requests a second over 10 isolates is banned within the minute", async () => {
  const world = new World(keyPolicy(60, 1_000), Array(10).fill(0));
  let requests = 1;
  for (; !(await world.answerTo(requests % 10)).decision!.banned; requests++) {
    await world.advance(327);
  }
  expect(requests).toBeLessThanOrEqual(180);
});

test.for([false, true])(
  "a ban that begins while a report runs, and whose own report is lost, is reported a minute later (the object has ended meanwhile: %s)",
  async (isKilled) => {
    const strikes = { BAN_GRACE_SECONDS: 1, BAN_MIN_STRIKES: 3, BAN_MAX_STRIKES: 3 };
    const world = new World(keyPolicy(1, 1_000), [0], strikes);
    await world.answerTo(0);
    world.reports = [{ outMs: 9_000, backMs: 0 }, lost];
    world.wakeObject();
    for (let n = 0; n < 60; n++) {
      await world.advance(100);
      void world.send(0);
    }
    await world.advance(9_000);
    expect(world.usage.bans).toHaveLength(1);
    if (isKilled) world.kill();
    await world.advance(MINUTE_MS);
    expect(world.usage.bans).toMatchObject([{}, { number: 1 }]);
  },
);

test("what is counted while a report runs over midnight is in the next report, within a minute; then only the current day is stored", async () => {
  const world = new World(keyPolicy(60, 1_000), [0]);
  await world.answerTo(0);
  await world.advance(26_000);
  world.reports = [{ outMs: 0, backMs: 9_000 }];
  world.wakeObject();
  for (const ms of [1_000, 4_000]) {
    await world.advance(ms);
    await world.answerTo(0);
  }
  await world.advance(MINUTE_MS);
  const days = { "2027-01-15": { admitted: 2 }, "2027-01-16": { admitted: 1 } };
  expect(world.usage.days).toMatchObject(days);
  await world.answerTo(0);
  expect(world.stored.usage).toMatchObject([{ admitted: 2 }]);
});

test("a look from memory is as of now; after the clock was set back, a look is answered within a second", async () => {
  const world = new World(keyPolicy(5, 9), [0]);
  await world.look(0);
  await world.advance(400);
  expect(await world.look(0)).toMatchObject({ nowMs: Date.now() });
  vi.setSystemTime(Date.now() - HOUR_MS);
  const look = world.look(0);
  await world.advance(1_000);
  const said = await Promise.race([look, Promise.resolve("late")]);
  expect(said).toMatchObject({ minute: { remaining: 5 } });
});

test.for([50, 150])(
  "a refusal ends with its window, although the clock was set back %d ms after its call of 100 ms began",
  async (ms) => {
    const world = new World(keyPolicy(1, 9), [0]);
    await world.answerTo(0);
    world.wires = [{ outMs: 0, backMs: 100 }, PERFECT];
    void world.send(0);
    await world.advance(ms);
    vi.setSystemTime(Date.now() - HOUR_MS);
    await world.advance(2 * MINUTE_MS);
    expect(await world.answerTo(0)).toMatchObject({ decidedBy: "object" });
  },
);

test("an isolate reports 50 strikes, or the oldest one after 3 seconds", async () => {
  const world = new World(keyPolicy(1, 1_000), [0], { BAN_MIN_STRIKES: 300, BAN_MAX_STRIKES: 300 });
  for (let n = 0; n < 2; n++) await world.answerTo(0);
  await world.advance(10_000);
  for (const [times, ms, reported] of [
    [50, 100, 49],
    [1, 2_999, 49],
    [1, 1, 49],
    [1, 10, 51],
  ] as const) {
    for (let n = 0; n < times; n++) void world.send(0);
    await world.advance(ms);
    expect(world.isolates[0]!.reported).toBe(reported);
  }
});
