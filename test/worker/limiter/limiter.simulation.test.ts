import fc from "fast-check";
import { beforeEach, expect, test, vi } from "vitest";
import { retryAfterSeconds } from "../../../src/rules/limits/headers.ts";
import { WINDOW_NAMES } from "../../../src/rules/limits/windows.ts";
import { anyBanVars, event, oneOf, step, type Step, upTo } from "../../rules/limits/histories.ts";
import { keyPolicy, SimulatedLimiter, START_MS } from "../../rules/limits/simulated-limiter.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../support/clock.ts";
import { TIMEOUT_MS } from "./witness.ts";
import { FAULTS, type Isolate, PERFECT, type Wire, World } from "./world.ts";

const ALL = [0, 1, 2];
/** Half a minute before midnight in UTC. */
const EVENING_MS = START_MS + 16 * HOUR_MS - MINUTE_MS / 2;

/** Limits with which either window may fill first. */
const anyLimits = fc.record({
  perMinute: fc.oneof(upTo(8), fc.integer({ min: 20, max: 60 })),
  perDay: fc.oneof(upTo(25), fc.integer({ min: 40, max: 90 })),
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
    times: fc.oneof(upTo(6), upTo(40)),
    gapMs: fc.oneof(fc.constant(0), upTo(2_500)),
    cancels: fc.boolean(),
    wires: anyWires,
  }),
  async (world: World, { isolate, times, gapMs, cancels, wires }) => {
    world.wires = [...wires];
    for (let n = 0; n < times; n++) {
      if (n > 0 && gapMs > 0) await world.advance(gapMs);
      // Requests before and after this one may share a call.
      if (n === 15) world.learn(isolate);
      void world.send(isolate, cancels && n % 3 === 0);
    }
    await world.advance(0);
  },
);

const overlappingLooks = step(
  "looks",
  fc.record({ isolate: anyIsolate, times: upTo(5), wires: anyWires }),
  async (world: World, { isolate, times, wires }) => {
    world.lookWires = [...wires];
    for (let n = 0; n < times; n++) void world.look(isolate);
    await world.advance(0);
  },
);

const lost: Wire = { ...PERFECT, error: {}, before: "call" };

/** The object answers one request, and the fallback limiter the next one. */
const fallBack = step("fall back", anyIsolate, async (world: World, isolate) => {
  for (const wire of [PERFECT, lost]) {
    world.wires = [wire];
    void world.send(isolate);
    await world.advance(world.diskMs);
  }
});

const goToTheRetryTime = step(
  "go to the retry time",
  fc.constantFrom(-1_000, -1, 0, 1),
  (world: World, offsetMs) => world.advance(Math.max(0, world.retryAtMs + offsetMs - Date.now())),
);

/** While a report runs, which the next report overlaps, 30 requests suffice for a ban. */
const disturbReports = step(
  "disturb reports",
  fc.record({ reports: anyReports, requests: fc.constantFrom(0, 0, 30) }),
  async (world: World, { reports, requests }) => {
    world.reports = [...reports];
    if (requests > 0) world.setAlarm(Date.now());
    for (let n = 0; n < requests; n++) {
      void world.send(0);
      await world.advance(100);
    }
  },
);

const changes = fc.oneof<fc.Arbitrary<Step<World>>[]>(
  step("change the plan", anyLimits, (world, limits) => world.change({ limits })),
  event("reset", (world) => world.change({ resets: world.newest.resets + 1 })),
  step("change the plan everywhere", anyLimits, (world, limits) => {
    world.change({ limits });
    world.learn(...ALL);
  }),
  step("learn", fc.subarray(ALL), (world, isolates) => world.learn(...isolates)),
  event("kill", (world) => world.startObject()),
  step("break the disk", fc.boolean(), (world, isBroken) => void (world.isDiskBroken = isBroken)),
  step("break the alarm", fc.boolean(), (world, isBroken) => void (world.isAlarmBroken = isBroken)),
);

const passTime = step("pass time", someTime, (world: World, ms) => world.advance(ms));

/** Any events on any isolate. Calls overlap, are delayed and fail. */
const historyWith = (...weighted: (readonly [number, fc.Arbitrary<Step<World>>])[]) =>
  fc.array(
    oneOf<World>([10, overlappingRequests], [3, passTime], [3, goToTheRetryTime], ...weighted),
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

type Planned = typeof anyWorld extends fc.Arbitrary<infer Value> ? Value : never;

/** Plays a history. Then ends every fault and call, and lets every isolate know the newest key. */
async function run({ policy, behindMs, vars, diskMs }: Planned, history: readonly Step<World>[]) {
  vi.clearAllTimers();
  vi.setSystemTime(EVENING_MS);
  const world = Object.assign(new World(policy, behindMs, vars), { diskMs });
  for (const { play } of history) await play(world);
  // Calls that nobody waits for any more may still be under way.
  await world.advance(4 * TIMEOUT_MS);
  const calls = { wires: [PERFECT], lookWires: [PERFECT] };
  Object.assign(world, { ...calls, isDiskBroken: false, isAlarmBroken: false });
  world.learn(...ALL);
  await world.advance(2 * TIMEOUT_MS);
  return world;
}

test("several isolates and a Durable Object keep every promise, whatever happens to calls, versions and disk", async () => {
  const parts = { memory: 0, object: 0, fallback: 0, nobody: 0 };
  const seen = { waited: 0, replicas: 0, ...parts, alarm_not_set: 0, refusals_unreported: 0 };
  let most = 0;
  const anyHistory = historyWith([3, disturbReports], [5, changes]);
  await fc.assert(
    fc.asyncProperty(anyWorld, anyHistory, async (of, history) => {
      const world = await run(of, history);
      const { decision } = await world.answerTo(0);
      // Refusals by other isolates may have led to a ban that this isolate does not know yet.
      const isBanned = (world.stored?.ban?.untilMs ?? 0) > Date.now();
      if (decision?.admitted === false && decision.banned === isBanned) {
        await world.advance(retryAfterSeconds(decision) * 1_000);
        expect((await world.answerTo(1)).decision).toMatchObject({ admitted: true });
        seen.waited += 1;
      }
      await world.advance(2 * DAY_MS);
      for (const index of ALL) expect((await world.answerTo(index)).decidedBy).toBe("object");
      await world.advance(3 * HOUR_MS);
      world.witness.ends(world.isolates, world.keys.read());
      expect(world.witness.broken).toStrictEqual([]);
      const { replicas, logged, decidedBy, mostCalls } = world.witness;
      most = Math.max(most, mostCalls);
      for (const [name, count] of Object.entries({ replicas, ...decidedBy })) {
        seen[name as "memory"] += count;
      }
      for (const line of logged) if (line.event in seen) seen[line.event as "memory"] += 1;
    }),
    { numRuns: 120 },
  );
  expect(Math.min(...Object.values(seen)), JSON.stringify(seen)).toBeGreaterThan(5);
  expect(most, "calls of an isolate under way").toBe(8);
});

test("looks mixed into any history change no decision and no row, are never older than the isolate's last decision, and say what its next request meets", async () => {
  const seen = { looks: 0, admitted: 0, refused: 0, banned: 0 };
  const anyMixed = historyWith([8, overlappingLooks], [6, fallBack], [3, changes]);
  await fc.assert(
    fc.asyncProperty(anyWorld, anyMixed, async (of, history) => {
      const without = history.filter(({ name }) => name !== "looks");
      const unseen = await run(of, without);
      const world = await run(of, history);
      seen.looks += history.length - without.length;
      expect(world.verdicts).toStrictEqual(unseen.verdicts);
      expect(world.rows).toStrictEqual(unseen.rows);
      for (const index of [...ALL, ...ALL]) {
        await world.advance(1_000);
        const said = (await world.look(index))!;
        const met = (await world.answerTo(index)).decision!;
        seen[said.banned ? "banned" : said.retryAtMs === null ? "admitted" : "refused"] += 1;
        expect(met.admitted).toBe(said.retryAtMs === null);
        // A last strike may have begun a ban.
        if (met.banned && !said.banned) continue;
        for (const name of WINDOW_NAMES) {
          const { limit, remaining, endsMs } = said[name];
          // A window that no request has opened is described as if it opened now.
          const end = remaining < limit ? { endsMs } : {};
          const left = remaining - Number(met.admitted);
          expect(met[name]).toMatchObject({ limit, remaining: left, ...end });
        }
        const { retryAtMs, banned, ban } = said;
        if (!met.admitted) expect(met).toMatchObject({ retryAtMs, banned, ...(ban && { ban }) });
      }
      expect(world.witness.broken).toStrictEqual([]);
    }),
    { numRuns: 80 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(2);
});

test("a ban begins exactly with the request that makes its last strike if one isolate receives all; otherwise no earlier", async () => {
  const anyGapMs = fc.oneof(fc.nat(1_000), fc.nat(4_000), fc.constantFrom(10_000, MINUTE_MS));
  const anyRequest = fc.record({ isolate: anyIsolate, gapMs: anyGapMs });
  const anyRequests = fc.array(anyRequest, { maxLength: 60, size: "max" });
  await fc.assert(
    fc.asyncProperty(fc.boolean(), anyRequests, async (isOne, requests) => {
      const world = new World(keyPolicy(1, 1_000), ALL, { BAN_MIN_STRIKES: 7, BAN_MAX_STRIKES: 7 });
      const direct = new SimulatedLimiter(keyPolicy(1, 1_000), world.bans);
      let firstStrikeMs = 0;
      for (const { isolate, gapMs } of requests) {
        await world.advance(gapMs);
        if (gapMs === 10_000 && !isOne) world.startObject();
        const answer = world.answerTo(isOne ? 0 : isolate);
        direct.nowMs = Date.now();
        const { decision, strikes } = direct.decide(direct.policy);
        const { admitted, banned } = (await answer).decision!;
        expect(admitted).toBe(decision.admitted);
        if (admitted) firstStrikeMs = 0;
        else if (strikes > 0) firstStrikeMs ||= direct.nowMs;
        const isOneSeries = direct.nowMs - firstStrikeMs < MINUTE_MS;
        if (isOne && isOneSeries) expect(banned).toBe(decision.banned);
        else expect(decision.banned || !banned).toBe(true);
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

const late: Wire = { ...PERFECT, outMs: 9_000 };

test.for<[how: string, reports: Wire[], isKilled: boolean, ms: number]>([
  ["also if it began during a report", [late, ...Array<Wire>(10).fill(lost)], false, 3 * HOUR_MS],
  ["a minute later, also if the object ended", [PERFECT, lost], true, MINUTE_MS],
])("a ban whose report is lost is in the next one, %s", async ([, reports, isKilled, ms]) => {
  const strikes = { BAN_GRACE_SECONDS: 1, BAN_MIN_STRIKES: 3, BAN_MAX_STRIKES: 3 };
  const world = new World(keyPolicy(1, 1_000), [0], strikes);
  await world.answerTo(0);
  world.reports = reports;
  world.setAlarm(Date.now());
  for (let n = 0; n < 60; n++) {
    await world.advance(100);
    void world.send(0);
  }
  expect(world.keys.read().bans).toHaveLength(1);
  if (isKilled) world.startObject();
  await world.advance(ms);
  expect(world.keys.read().bans).toMatchObject([{}, { number: 1 }]);
});

test("what is counted while a report runs over midnight is in the next report, within a minute; then only the current day is stored", async () => {
  const world = new World(keyPolicy(60, 1_000), [0]);
  await world.answerTo(0);
  await world.advance(26_000);
  world.reports = [{ outMs: 0, backMs: 9_000 }];
  world.setAlarm(Date.now());
  for (const ms of [1_000, 4_000]) {
    await world.advance(ms);
    await world.answerTo(0);
  }
  await world.advance(MINUTE_MS);
  const days = { "2027-01-15": { admitted: 2 }, "2027-01-16": { admitted: 1 } };
  expect(world.keys.read().days).toMatchObject(days);
  await world.answerTo(0);
  expect(world.rows.at(-1)).toMatchObject({ usage: [{ admitted: 2 }] });
});

test("a look is answered within a second, as of now, also after the clock was set back; it says what the object had decided a second ago, however long the isolate's last call took", async () => {
  const world = new World(keyPolicy(5, 9), [0, 0]);
  world.wires = [{ outMs: 0, backMs: 900 }, PERFECT];
  void world.send(0);
  await world.answerTo(1);
  for (const ms of [1_000, 400]) {
    await world.advance(ms);
    expect(await world.look(0)).toMatchObject({ nowMs: Date.now(), minute: { remaining: 3 } });
  }
  vi.setSystemTime(Date.now() - HOUR_MS);
  await world.answerTo(1);
  const look = world.look(0);
  await world.advance(1_000);
  const said = await Promise.race([look, Promise.resolve("late")]);
  expect(said).toMatchObject({ minute: { remaining: 2 } });
  // After a decision of the fallback limiter and one of the object, it is known again at once.
  for (const wire of [lost, PERFECT]) {
    world.wires = [wire];
    await world.answerTo(0);
  }
  void world.look(0);
  await world.advance(0);
  const known = world.look(0);
  await world.advance(0);
  expect(await Promise.race([known, Promise.resolve("late")])).not.toBe("late");
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

test("an isolate reports 50 strikes, or the first one after 3 seconds, each once also in an outage; no refusal stands under other limits", async () => {
  const world = new World(keyPolicy(1, 1_000), [0], { BAN_MIN_STRIKES: 300, BAN_MAX_STRIKES: 300 });
  const [isolate] = world.isolates as [Isolate];
  for (let n = 0; n < 2; n++) await world.answerTo(0);
  await world.advance(10_000);
  for (const [times, ms, reported, wire] of [
    [50, 100, 49, PERFECT],
    [1, 2_999, 49, PERFECT],
    [1, 1, 49, PERFECT],
    [1, 10, 51, PERFECT],
    [50, 10, 100, lost],
    [60, 1_000, 100, PERFECT],
    [1, 10, 160, PERFECT],
  ] as const) {
    world.wires = [wire];
    for (let n = 0; n < times; n++) void world.send(0);
    await world.advance(ms);
    expect(isolate.reported).toBe(reported);
  }
  isolate.policy = keyPolicy(2, 1_000);
  const verdict = { decidedBy: "object", decision: { admitted: true } };
  expect(await world.answerTo(0)).toMatchObject(verdict);
});
