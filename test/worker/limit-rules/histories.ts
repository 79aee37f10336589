import fc from "fast-check";
import { BAN_MODES, type BanMode, type BanPolicy } from "../../../src/worker/limit-rules/bans.ts";
import type {
  Decision,
  LimiterState,
  QuotaPolicy,
  ReportedWait,
} from "../../../src/worker/limit-rules/decision.ts";
import type { Limits } from "../../../src/worker/limit-rules/plans.ts";
import { DAY_MS, HOUR_MS, SimulatedLimiter } from "./simulated-limiter.ts";

/** One event in a simulated history of a key. */
export type Step =
  | {
      readonly do: "request";
      readonly times: number;
      readonly gapMs: number;
      /** Refusals that an isolate reports with the first request; their ages in milliseconds. */
      readonly report: readonly [waitAgeMs: number, strikes: number, oldestMs: number] | null;
    }
  | { readonly do: "pass time" | "set the clock back"; readonly ms: number }
  | { readonly do: "go to the retry time"; readonly offsetMs: number }
  | { readonly do: "go to the next border of strikes"; readonly offsetMs: number }
  | { readonly do: "set the ban mode"; readonly mode: BanMode }
  | { readonly do: "change the plan"; readonly limits: Limits }
  | { readonly do: "deploy other limits"; readonly limits: Limits }
  | { readonly do: "request under the plan before" }
  | { readonly do: "reset" }
  | { readonly do: "restart" };

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

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("request" as const),
      times: fc.integer({ min: 1, max: 12 }),
      gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 3_000 })),
      report: fc.option(fc.tuple(someAge, fc.nat({ max: 6 }), someAge), { freq: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pass time" as const), ms: someTime }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "go to the retry time" as const,
        "go to the next border of strikes" as const,
      ),
      offsetMs: fc.constantFrom(-1, 0, 1),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom("change the plan" as const, "deploy other limits" as const),
      limits: anyLimits,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.oneof(
      fc.record({ do: fc.constant("set the clock back" as const), ms: someTime }),
      fc.record({
        do: fc.constant("set the ban mode" as const),
        mode: fc.constantFrom(...BAN_MODES),
      }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Step>(
      { do: "request under the plan before" },
      { do: "reset" },
      { do: "restart" },
    ),
  },
);

export const anyHistory = fc.array(anyStep, { maxLength: 40, size: "max" });

/** Generates histories in which only requests are sent and time passes. */
export const anyTraffic = fc.array(
  anyStep.filter(
    (step) => step.do === "request" || step.do === "pass time" || step.do.startsWith("go to"),
  ),
  { maxLength: 40, size: "max" },
);

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

/** Returns the next time at which refusals begin to count, or at which strikes or bans are forgotten. */
function strikeBorderMs({ wait, ban }: LimiterState, bans: BanPolicy, nowMs: number): number {
  const bordersMs = [
    (wait?.startedMs ?? 0) + bans.graceMs,
    (wait?.firstStrikeMs ?? 0) + bans.strikeWindowMs,
    (ban?.untilMs ?? 0) + bans.forgetAfterMs,
  ];
  return Math.min(...bordersMs.filter((borderMs) => borderMs > nowMs));
}

/** Runs a history on a simulated limiter, and calls `observer` for each request and restart. */
export function play(
  limiter: SimulatedLimiter,
  history: readonly Step[],
  observer: Observer = {},
): void {
  const requestUnder = (policy: QuotaPolicy, reported: ReportedWait | null = null) => {
    const newest = limiter.policy;
    limiter.policy = policy;
    const decision = limiter.request(reported);
    limiter.policy = newest;
    observer.requested?.(policy, limiter.nowMs, decision, reported);
  };
  let before = limiter.policy;
  const change = (changes: Partial<QuotaPolicy>) => {
    before = limiter.policy;
    limiter.policy = { ...before, ...changes, revision: before.revision + 1 };
  };
  for (const step of history) {
    switch (step.do) {
      case "request":
        for (let n = 0; n < step.times; n++) {
          if (n > 0) limiter.advance(step.gapMs);
          const [waitAgeMs, strikes, oldestMs] = step.report ?? [0, 0, 0];
          const reported = {
            startedMs: limiter.nowMs - waitAgeMs,
            strikes,
            oldestStrikeMs: limiter.nowMs - oldestMs,
          };
          requestUnder(limiter.policy, n === 0 && step.report !== null ? reported : null);
        }
        break;
      case "pass time":
        limiter.advance(step.ms);
        break;
      case "set the clock back":
        limiter.advance(-step.ms);
        break;
      case "set the ban mode":
        limiter.bans = { ...limiter.bans, mode: step.mode };
        break;
      case "go to the next border of strikes": {
        const { state, bans, nowMs } = limiter;
        const borderMs = state === null ? Infinity : strikeBorderMs(state, bans, nowMs);
        if (borderMs < Infinity) limiter.nowMs = Math.max(nowMs, borderMs + step.offsetMs);
        break;
      }
      case "go to the retry time":
        limiter.nowMs = Math.max(limiter.nowMs, (limiter.peek().retryAtMs ?? 0) + step.offsetMs);
        break;
      case "change the plan":
        change({ limits: step.limits });
        break;
      case "deploy other limits":
        before = limiter.policy;
        limiter.policy = { ...before, limits: step.limits };
        break;
      case "request under the plan before":
        requestUnder(before);
        break;
      case "reset":
        change({ resets: limiter.policy.resets + 1 });
        break;
      case "restart":
        limiter.restart();
        observer.restarted?.();
    }
  }
}
