import fc from "fast-check";
import type { Limits } from "../../../src/worker/limit-rules/plans.ts";
import { DAY_MS, HOUR_MS } from "../limit-rules/simulated-limiter.ts";
import { FATES, PERFECT, type Wire, type World } from "./world.ts";

export const ISOLATES = 3;

/** One event in the history of a key that several isolates serve. */
export type Step =
  | {
      readonly do: "request";
      readonly isolate: number;
      readonly times: number;
      readonly gapMs: number;
      readonly wires: readonly Wire[];
      /** True if the isolate learns of a new version of the key between these requests. */
      readonly learns?: boolean;
    }
  | { readonly do: "pass time"; readonly ms: number }
  | { readonly do: "go to the retry time"; readonly offsetMs: number }
  | { readonly do: "change the plan"; readonly limits: Limits }
  | { readonly do: "learn"; readonly isolate: number }
  | { readonly do: "restart"; readonly isolate: number }
  | { readonly do: "move the object's clock"; readonly ms: number }
  | { readonly do: "break the disk" | "cut the database" | "reset" | "kill" };

/** Generates limits of which either may fill first, some of them larger than a group of requests. */
export const anyLimits: fc.Arbitrary<Limits> = fc.record({
  perMinute: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 20, max: 60 })),
  perDay: fc.oneof(fc.integer({ min: 1, max: 25 }), fc.integer({ min: 40, max: 90 })),
});

const anyIsolate = fc.nat({ max: ISOLATES - 1 });

const anyLatency = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 300 }));

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

const requests = (
  wires: fc.Arbitrary<readonly Wire[]>,
  isolate: fc.Arbitrary<number>,
  times: fc.Arbitrary<number>,
  learns: fc.Arbitrary<boolean> = fc.constant(false),
): fc.Arbitrary<Step> =>
  fc.record({
    do: fc.constant("request" as const),
    isolate,
    times,
    gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2_500 })),
    wires,
    learns,
  });

const passages: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pass time" as const), ms: someTime }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("go to the retry time" as const),
      offsetMs: fc.constantFrom(-1_000, -1, 0, 1),
    }),
  },
);

const planChange = fc.record({ do: fc.constant("change the plan" as const), limits: anyLimits });
const reset = fc.constant<Step>({ do: "reset" });

const administration: fc.Arbitrary<Step> = fc.oneof(planChange, reset, {
  weight: 3,
  arbitrary: fc.record({ do: fc.constant("learn" as const), isolate: anyIsolate }),
});

const losses: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("restart" as const), isolate: anyIsolate }),
  fc.record({
    do: fc.constant("move the object's clock" as const),
    ms: fc.oneof(
      fc.integer({ min: -5_000, max: 5_000 }),
      // Only one of the two windows then opened in the future.
      fc.constantFrom(-30_000, -90_000, -2 * HOUR_MS, HOUR_MS),
    ),
  }),
  fc.constantFrom<Step>(
    { do: "kill" },
    { do: "kill" },
    { do: "break the disk" },
    { do: "cut the database" },
  ),
);

const SIZE = { maxLength: 25, size: "max" } as const;

/** Generates histories of any events on any isolate. Calls overlap, are delayed and fail. */
export const anyHistory: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 10,
      arbitrary: requests(
        fc.array(anyWire, { minLength: 1, maxLength: 6 }),
        anyIsolate,
        fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 40 })),
        fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, fc.constant(true)),
      ),
    },
    { weight: 6, arbitrary: passages },
    { weight: 2, arbitrary: administration },
    { weight: 3, arbitrary: losses },
  ),
  SIZE,
);

/**
 * Generates histories of one isolate with one request after another. Calls take no time and never
 * fail.
 */
export const anyOrderlyHistory: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 10,
      arbitrary: requests(fc.constant([PERFECT]), fc.constant(0), fc.integer({ min: 1, max: 12 })),
    },
    { weight: 6, arbitrary: passages },
    { weight: 1, arbitrary: fc.oneof(planChange, reset) },
  ),
  SIZE,
);

/**
 * Runs one step of a history. With `isOrderly`, requests wait for each other, and all isolates learn
 * immediately of a new version of the key; otherwise each isolate learns of it in a later step.
 */
export async function play(world: World, step: Step, { isOrderly = false } = {}): Promise<void> {
  switch (step.do) {
    case "request":
      world.wires = [...step.wires];
      for (let n = 0; n < step.times; n++) {
        if (n > 0 && step.gapMs > 0) await world.advance(step.gapMs);
        if (step.learns === true && n === step.times >> 1) {
          world.change({});
          world.learn(step.isolate);
        }
        const exchange = world.send(step.isolate);
        if (isOrderly) {
          await world.advance(0);
          await world.drain();
          await exchange;
        }
      }
      await world.advance(0);
      break;
    case "pass time":
      await world.advance(step.ms);
      break;
    case "go to the retry time": {
      const { limiter } = world.stored;
      if (limiter === null) break;
      const ends = [
        (limiter.minute?.openedMs ?? 0) + 60_000,
        (limiter.day?.openedMs ?? 0) + DAY_MS,
        limiter.ban?.untilMs ?? 0,
      ].filter((endMs) => endMs > world.objectMs);
      const nextMs = Math.min(...ends) + step.offsetMs - world.objectMs;
      if (Number.isFinite(nextMs) && nextMs > 0) await world.advance(nextMs);
      break;
    }
    case "change the plan":
      world.change({ limits: step.limits });
      break;
    case "reset":
      world.change({ resets: world.newest.resets + 1 });
      break;
    case "learn":
      world.learn(step.isolate);
      break;
    case "restart":
      world.restart(step.isolate);
      break;
    case "move the object's clock":
      world.moveObjectClock(step.ms);
      break;
    case "break the disk":
      world.isDiskBroken = !world.isDiskBroken;
      break;
    case "cut the database":
      world.isDatabaseCut = !world.isDatabaseCut;
      break;
    case "kill":
      world.kill();
  }
  if (isOrderly) world.learnAll();
}
