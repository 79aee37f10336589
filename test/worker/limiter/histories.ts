import fc from "fast-check";
import type { Limits } from "../../../src/rules/limits/plans.ts";
import { event, oneOf, step } from "../../rules/limits/histories.ts";
import { FATES, type Wire, type World } from "./world.ts";
import { DAY_MS, HOUR_MS } from "../../support/clock.ts";

export const ISOLATES = 3;

/** Generates limits with which either window may fill first. */
export const anyLimits: fc.Arbitrary<Limits> = fc.record({
  perMinute: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 20, max: 60 })),
  perDay: fc.oneof(fc.integer({ min: 1, max: 25 }), fc.integer({ min: 40, max: 90 })),
});

const anyIsolate = fc.nat({ max: ISOLATES - 1 });

const anyLatency = fc.oneof(fc.nat(300), fc.nat(300), fc.nat(2_400));

const anyWire: fc.Arbitrary<Wire> = fc.record({
  outMs: anyLatency,
  backMs: anyLatency,
  fate: fc.oneof(
    { weight: 8, arbitrary: fc.constant("answer" as const) },
    { weight: 5, arbitrary: fc.constantFrom(...FATES) },
  ),
});

const someTime = fc.oneof(
  fc.integer({ min: 0, max: 5_000 }),
  fc.integer({ min: 20_000, max: 65_000 }),
  fc.constantFrom(1_000, 3_000, 10_000, 60_000, HOUR_MS, DAY_MS - 1, DAY_MS),
);

const anyGapMs = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2_500 }));

const overlappingRequests = step(
  "requests",
  fc.record({
    isolate: anyIsolate,
    times: fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 40 })),
    gapMs: anyGapMs,
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

const passages = oneOf<World>(
  [3, step("pass time", someTime, (world, ms) => world.advance(ms))],
  [
    4,
    step("go to the retry time", fc.constantFrom(-1_000, -1, 0, 1), async (world, offsetMs) => {
      const { limiter } = world.stored;
      const ends = [
        (limiter?.minute?.openedMs ?? 0) + 60_000,
        (limiter?.day?.openedMs ?? 0) + DAY_MS,
        limiter?.ban?.untilMs ?? 0,
      ].filter((endMs) => endMs > world.objectMs);
      const nextMs = Math.min(...ends) + offsetMs - world.objectMs;
      if (Number.isFinite(nextMs) && nextMs > 0) await world.advance(nextMs);
    }),
  ],
);

const administration = oneOf<World>(
  [1, step("change the plan", anyLimits, (world, limits) => world.change({ limits }))],
  [1, step("deploy other limits", anyLimits, (world, limits) => world.deploy(limits))],
  [1, event("reset", (world) => world.change({ resets: world.newest.resets + 1 }))],
);

const losses = oneOf<World>(
  [1, step("restart", anyIsolate, (world, isolate) => world.restart(isolate))],
  [1, step("set a clock back", anyIsolate, (world, isolate) => world.setClockBack(isolate))],
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
  [1, event("kill", (world) => world.kill())],
  [
    1,
    step("break the disk", fc.boolean(), (world, isPutBroken) => {
      Object.assign(world, { isDiskBroken: !world.isDiskBroken, isPutBroken });
    }),
  ],
  [1, event("cut the database", (world) => void (world.isDatabaseCut = !world.isDatabaseCut))],
);

/** Generates histories of any events on any isolate. Calls overlap, are delayed and fail. */
export const anyHistory = fc.array(
  oneOf<World>(
    [10, overlappingRequests],
    [6, passages],
    [1, administration],
    [1, step("learn", anyIsolate, (world, isolate) => world.learn(isolate))],
    [3, losses],
  ),
  { maxLength: 25, size: "max" },
);
