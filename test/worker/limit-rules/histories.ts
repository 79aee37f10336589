import fc from "fast-check";
import { BAN_MODES, type BanPolicy } from "../../../src/worker/limit-rules/bans.ts";
import type {
  Decision,
  QuotaPolicy,
  ReportedWait,
} from "../../../src/worker/limit-rules/decision.ts";
import type { Limits } from "../../../src/worker/limit-rules/plans.ts";
import { DAY_MS, HOUR_MS, type SimulatedLimiter } from "./simulated-limiter.ts";

/** One event in a simulated history. */
export interface Step<World> {
  /** With `value`, describes the step of a failed history. */
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

/** A step without a value. */
export function event<World>(name: string, run: (world: World) => void) {
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

/**
 * Generates ban policies. The numbers of strikes are small, so that short histories lead to bans.
 * Each duration is either the default or a shorter one.
 */
export const anyBanPolicy: fc.Arbitrary<BanPolicy> = fc.record({
  mode: fc.oneof(
    { weight: 6, arbitrary: fc.constant("on" as const) },
    fc.constantFrom(...BAN_MODES),
  ),
  graceMs: fc.constantFrom(10_000, 1_000),
  strikeWindowMs: fc.constantFrom(60_000, 5_000),
  minStrikes: fc.integer({ min: 1, max: 4 }),
  maxStrikes: fc.integer({ min: 4, max: 6 }),
  firstBanMs: fc.constantFrom(60_000, 3_000),
  longestBanMs: fc.constantFrom(DAY_MS, 240_000),
  forgetAfterMs: fc.constantFrom(DAY_MS, HOUR_MS),
});

const someTime = fc.oneof(
  fc.integer({ min: 0, max: 5_000 }),
  fc.integer({ min: 55_000, max: 65_000 }),
  fc.constantFrom(2_000, 60_000, HOUR_MS, DAY_MS - 1, DAY_MS, 3 * DAY_MS),
);

const someAge = fc.constantFrom(0, 900, 1_000, 2_000, 5_000, 10_000, 60_000);

/** A key whose history is played. */
interface Played {
  readonly limiter: SimulatedLimiter;
  readonly observer: Observer;
  /** The policy before its last change. */
  before: QuotaPolicy;
}

function request(
  { limiter, observer }: Played,
  policy = limiter.policy,
  reported: ReportedWait | null = null,
): void {
  const newest = limiter.policy;
  limiter.policy = policy;
  const decision = limiter.request(reported);
  limiter.policy = newest;
  observer.requested?.(policy, limiter.nowMs, decision, reported);
}

function change(played: Played, changes: Partial<QuotaPolicy>): void {
  played.before = played.limiter.policy;
  played.limiter.policy = { ...played.before, ...changes };
}

const revised = ({ limiter }: Played) => limiter.policy.revision + 1;

const requests = step(
  "requests",
  fc.record({
    times: fc.integer({ min: 1, max: 12 }),
    gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 3_000 })),
    /** Refusals that an isolate reports with the first request; their ages in milliseconds. */
    report: fc.option(
      fc.record({ waitAgeMs: someAge, strikes: fc.nat({ max: 6 }), oldestMs: someAge }),
      { freq: 3 },
    ),
  }),
  (played: Played, { times, gapMs, report }) => {
    const { limiter } = played;
    const reported = report && {
      startedMs: limiter.nowMs - report.waitAgeMs,
      strikes: report.strikes,
      oldestStrikeMs: limiter.nowMs - report.oldestMs,
    };
    request(played, limiter.policy, reported);
    for (let n = 1; n < times; n++) {
      limiter.advance(gapMs);
      request(played);
    }
  },
);

const passage = step("pass time", someTime, ({ limiter }: Played, ms) => void limiter.advance(ms));

const anyOffsetMs = fc.constantFrom(-1, 0, 1);

const borders = oneOf<Played>(
  [
    1,
    step("go to the retry time", anyOffsetMs, ({ limiter }, offsetMs) => {
      limiter.nowMs = Math.max(limiter.nowMs, (limiter.peek().retryAtMs ?? 0) + offsetMs);
    }),
  ],
  [
    1,
    // The next time at which refusals begin to count, or at which strikes or bans are forgotten.
    step("go to the next border of strikes", anyOffsetMs, ({ limiter }, offsetMs) => {
      const { state, bans, nowMs } = limiter;
      const bordersMs = [
        (state?.wait?.startedMs ?? 0) + bans.graceMs,
        (state?.wait?.firstStrikeMs ?? 0) + bans.strikeWindowMs,
        (state?.ban?.untilMs ?? 0) + bans.forgetAfterMs,
      ];
      const borderMs = Math.min(...bordersMs.filter((ms) => ms > nowMs));
      if (borderMs < Infinity) limiter.nowMs = Math.max(nowMs, borderMs + offsetMs);
    }),
  ],
);

const changes = oneOf<Played>(
  [
    3,
    step("change the plan", anyLimits, (played, limits) =>
      change(played, { limits, revision: revised(played) }),
    ),
  ],
  [3, step("deploy other limits", anyLimits, (played, limits) => change(played, { limits }))],
  [3, step("set the clock back", someTime, ({ limiter }, ms) => void limiter.advance(-ms))],
  [
    3,
    step("set the ban mode", fc.constantFrom(...BAN_MODES), ({ limiter }, mode) => {
      limiter.bans = { ...limiter.bans, mode };
    }),
  ],
  [4, event("request under the policy before", (played) => request(played, played.before))],
  [
    4,
    event("reset", (played) => {
      const resets = played.limiter.policy.resets + 1;
      change(played, { resets, revision: revised(played) });
    }),
  ],
  [
    4,
    event("restart", ({ limiter, observer }) => {
      limiter.restart();
      observer.restarted?.();
    }),
  ],
);

/** Generates histories of a key with any events. */
export const anyHistory = fc.array(oneOf([8, requests], [3, passage], [5, borders], [4, changes]), {
  maxLength: 40,
  size: "max",
});

/** Callbacks for each request and each restart in a history. */
export interface Observer {
  requested?(
    policy: QuotaPolicy,
    nowMs: number,
    decision: Decision,
    reported: ReportedWait | null,
  ): void;
  restarted?(): void;
}

/** Runs a history on a simulated limiter, and calls `observer` for each request and restart. */
export function play(
  limiter: SimulatedLimiter,
  history: readonly Step<Played>[],
  observer: Observer = {},
): void {
  const played = { limiter, observer, before: limiter.policy };
  for (const one of history) void one.play(played);
}
