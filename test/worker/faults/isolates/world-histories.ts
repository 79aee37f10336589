import fc from "fast-check";
import type { Limits } from "../../../../src/worker/limits/plans.ts";
import { anyLimits } from "../../limits/histories.ts";
import { DAY_MS, HOUR_MS } from "../../limits/simulated-limiter.ts";
import { MAX_LATENCY_MS, type Wire, type World } from "./world.ts";

export const ISOLATES = 3;

/** One event in the history of a key that several isolates serve. */
export type Step =
  | {
      readonly do: "request";
      readonly isolate: number;
      readonly times: number;
      readonly gapMs: number;
      readonly wire: Wire;
    }
  | { readonly do: "pass time"; readonly ms: number }
  | { readonly do: "go to the retry time"; readonly offsetMs: number }
  | { readonly do: "change the plan"; readonly limits: Limits }
  | { readonly do: "reset" }
  | { readonly do: "learn"; readonly isolate: number }
  | { readonly do: "restart"; readonly isolate: number }
  | { readonly do: "evict" };

const anyIsolate = fc.nat({ max: ISOLATES - 1 });

const anyWire: fc.Arbitrary<Wire> = fc.record({
  outMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: MAX_LATENCY_MS })),
  backMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: MAX_LATENCY_MS })),
  fault: fc.oneof(
    { weight: 12, arbitrary: fc.constant("none" as const) },
    fc.constantFrom("never arrives" as const, "answer is lost" as const),
  ),
});

const PERFECT: Wire = { outMs: 0, backMs: 0, fault: "none" };

const someTime = fc.oneof(
  fc.integer({ min: 0, max: 5_000 }),
  fc.integer({ min: 20_000, max: 65_000 }),
  fc.constantFrom(10_000, 60_000, HOUR_MS, DAY_MS - 1, DAY_MS),
);

const requests = (wire: fc.Arbitrary<Wire>, isolate: fc.Arbitrary<number>): fc.Arbitrary<Step> =>
  fc.record({
    do: fc.constant("request" as const),
    isolate,
    times: fc.integer({ min: 1, max: 12 }),
    gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2_500 })),
    wire,
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

const administration: fc.Arbitrary<Step> = fc.oneof(
  planChange,
  fc.constant<Step>({ do: "reset" }),
  { weight: 3, arbitrary: fc.record({ do: fc.constant("learn" as const), isolate: anyIsolate }) },
);

const losses: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("restart" as const), isolate: anyIsolate }),
  fc.constant<Step>({ do: "evict" }),
);

const SIZE = { maxLength: 25, size: "max" } as const;

/** Generates histories of any events on any isolate. Calls overlap, are delayed and fail. */
export const anyHistory: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 10, arbitrary: requests(anyWire, anyIsolate) },
    { weight: 6, arbitrary: passages },
    { weight: 2, arbitrary: administration },
    { weight: 1, arbitrary: losses },
  ),
  SIZE,
);

/**
 * Generates histories of one isolate with one request after another. Calls take no time and never
 * fail.
 */
export const anyOrderlyHistory: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 10, arbitrary: requests(fc.constant(PERFECT), fc.constant(0)) },
    { weight: 6, arbitrary: passages },
    { weight: 1, arbitrary: fc.oneof(planChange, fc.constant<Step>({ do: "reset" })) },
  ),
  SIZE,
);

/**
 * Runs a history. With `atOnce`, all isolates learn immediately of a new plan or a reset of the key;
 * otherwise each isolate learns of it in a later step.
 */
export async function play(
  world: World,
  history: readonly Step[],
  { atOnce = false } = {},
): Promise<void> {
  const learnAll = () => world.isolates.forEach((_, index) => world.learn(index));
  for (const step of history) {
    switch (step.do) {
      case "request":
        for (let n = 0; n < step.times; n++) {
          if (n > 0) await world.advanceTo(world.nowMs + step.gapMs);
          await world.send(step.isolate, step.wire);
          await world.advanceTo(world.nowMs);
        }
        break;
      case "pass time":
        await world.advanceTo(world.nowMs + step.ms);
        break;
      case "go to the retry time": {
        const { retryAtMs } = world.object.peek(world.newest, world.nowMs);
        await world.advanceTo((retryAtMs ?? 0) + step.offsetMs);
        break;
      }
      case "change the plan":
        world.change({ limits: step.limits });
        if (atOnce) learnAll();
        break;
      case "reset":
        world.change({ resets: world.newest.resets + 1 });
        if (atOnce) learnAll();
        break;
      case "learn":
        world.learn(step.isolate);
        break;
      case "restart":
        world.restart(step.isolate);
        break;
      case "evict":
        await world.drain();
        world.object.evict();
    }
  }
}
