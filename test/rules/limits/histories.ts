import fc from "fast-check";
import { BAN_MODES } from "../../../src/rules/limits/bans.ts";
import type { Limits } from "../../../src/rules/limits/plans.ts";
import type { SimulatedLimiter } from "./simulated-limiter.ts";
import { DAY_MS, HOUR_MS } from "../../support/clock.ts";

export interface Step<World> {
  /** `name` and `value` describe the step in the message of a failed test. */
  readonly name: string;
  readonly value: unknown;
  readonly play: (world: World) => Promise<unknown> | void;
}

export function step<World, T>(
  name: string,
  values: fc.Arbitrary<T>,
  run: (world: World, value: T) => Promise<unknown> | void,
): fc.Arbitrary<Step<World>> {
  return values.map((value) => ({ name, value, play: (world) => run(world, value) }));
}

export function event<World>(name: string, run: (world: World) => Promise<unknown> | void) {
  return step<World, null>(name, fc.constant(null), run);
}

export function oneOf<World>(
  ...weighted: readonly (readonly [weight: number, steps: fc.Arbitrary<Step<World>>])[]
) {
  return fc.oneof(...weighted.map(([weight, arbitrary]) => ({ weight, arbitrary })));
}

/** Generates small limits, so that short histories fill both windows. */
export const anyLimits: fc.Arbitrary<Limits> = fc.record({
  perMinute: fc.integer({ min: 1, max: 8 }),
  perDay: fc.integer({ min: 1, max: 25 }),
});

/** Generates ban policies: a few strikes lead to a ban, and no duration exceeds its default. */
export const anyBanVars = fc.record({
  BAN_MODE: fc.constantFrom("on" as const, "on" as const, ...BAN_MODES),
  BAN_GRACE_SECONDS: fc.constantFrom(10, 1),
  BAN_STRIKE_WINDOW_SECONDS: fc.constantFrom(60, 5),
  BAN_MIN_STRIKES: fc.integer({ min: 1, max: 4 }),
  BAN_MAX_STRIKES: fc.integer({ min: 4, max: 6 }),
  BAN_FIRST_SECONDS: fc.constantFrom(60, 3),
  BAN_LONGEST_SECONDS: fc.constantFrom(86_400, 240),
  BAN_FORGET_SECONDS: fc.constantFrom(86_400, 3_600),
});

export type BanVars = Partial<typeof anyBanVars extends fc.Arbitrary<infer Vars> ? Vars : never>;

const someTime = fc.oneof(
  fc.integer({ min: 0, max: 5_000 }),
  fc.integer({ min: 55_000, max: 65_000 }),
  fc.constantFrom(2_000, 60_000, HOUR_MS, DAY_MS - 1, DAY_MS, 3 * DAY_MS),
);

const someAge = fc.constantFrom(0, 900, 1_000, 2_000, 5_000, 10_000, 60_000);

const requests = step(
  "requests",
  fc.record({
    times: fc.integer({ min: 1, max: 12 }),
    gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 3_000 })),
    /** Refusals that an isolate reports with the first request. */
    report: fc.option(
      fc.record({ ageMs: someAge, strikes: fc.nat({ max: 6 }), oldestStrikeAgeMs: someAge }),
      { freq: 3 },
    ),
  }),
  (limiter: SimulatedLimiter, { times, gapMs, report }) => {
    limiter.request(report);
    for (let n = 1; n < times; n++) limiter.advance(gapMs).request();
  },
);

const passage = step("pass time", someTime, (limiter: SimulatedLimiter, ms) => {
  limiter.advance(ms);
});

/** At a border, requests are admitted again, the grace ends, or strikes or bans are forgotten. */
const borders = step(
  "go to the next border",
  fc.record({ ofWindows: fc.boolean(), offsetMs: fc.constantFrom(-1, 0, 1) }),
  (limiter: SimulatedLimiter, { ofWindows, offsetMs }) => {
    const { state, bans, nowMs } = limiter;
    const ofStrikesMs = [
      (state?.wait?.startedMs ?? 0) + bans.graceMs,
      (state?.wait?.firstStrikeMs ?? 0) + bans.strikeWindowMs,
      (state?.ban?.untilMs ?? 0) + bans.forgetAfterMs,
    ];
    const bordersMs = ofWindows ? [limiter.peek().retryAtMs ?? 0] : ofStrikesMs;
    const borderMs = Math.min(...bordersMs.filter((ms) => ms > nowMs));
    if (borderMs < Infinity) limiter.nowMs = Math.max(nowMs, borderMs + offsetMs);
  },
);

const changes = fc.oneof<fc.Arbitrary<Step<SimulatedLimiter>>[]>(
  step("change the plan", anyLimits, (limiter, limits) =>
    limiter.change({ limits, revision: limiter.policy.revision + 1 }),
  ),
  step("deploy other limits", anyLimits, (limiter, limits) => limiter.change({ limits })),
  step("set the clock back", someTime, (limiter, ms) => void limiter.advance(-ms)),
  step("set the ban mode", fc.constantFrom(...BAN_MODES), (limiter, mode) => {
    limiter.bans = { ...limiter.bans, mode };
  }),
  event("request under the earlier policy", (limiter) => {
    const { policy, earlierPolicy } = limiter;
    limiter.policy = earlierPolicy;
    limiter.request();
    limiter.policy = policy;
  }),
  event("reset", (limiter) => {
    const { resets, revision } = limiter.policy;
    limiter.change({ resets: resets + 1, revision: revision + 1 });
  }),
  event("restart", (limiter) => limiter.restart()),
);

export const anyHistory = fc.array(oneOf([8, requests], [3, passage], [5, borders], [4, changes]), {
  maxLength: 40,
  size: "max",
});
