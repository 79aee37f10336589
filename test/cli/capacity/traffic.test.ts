import { describe, expect, test } from "vitest";
import type { Assumptions } from "../../../src/cli/capacity/assumptions.ts";
import { DEFAULT_ASSUMPTIONS } from "../../../src/cli/capacity/default-assumptions.ts";
import { GapHistogram } from "../../../src/cli/capacity/traffic/gap-histogram.ts";
import type { KeyDay } from "../../../src/cli/capacity/traffic/client-day.ts";
import { simulateKeyDay } from "../../../src/cli/capacity/traffic/key-day.ts";
import { Random } from "../../../src/cli/capacity/traffic/random.ts";
import { sentPerDay, simulateTraffic } from "../../../src/cli/capacity/traffic/traffic.ts";
import { parseConfig } from "../../../src/config.ts";
import { PLAN_LIMITS } from "../../../src/rate-limit/plans.ts";
import { smallSample } from "./small-sample.ts";

const ONLY = { waits: 0, backsOff: 0, hammers: 0 };

/** Some days of free keys whose clients all behave alike, and want far more than the plan has. */
function greedyDays(
  refused: Partial<Assumptions["refused"]>,
  { isRunaway = false, median = 50_000 } = {},
): KeyDay[] {
  const assumptions = {
    ...DEFAULT_ASSUMPTIONS,
    refused: { ...ONLY, ...refused },
    session: { requests: { median: 500, sigma: 1 }, pauseMs: { median: 200, sigma: 1 } },
    plans: {
      ...DEFAULT_ASSUMPTIONS.plans,
      free: { ...DEFAULT_ASSUMPTIONS.plans.free, requestsPerDay: { median, sigma: 0.5 } },
    },
  };
  const random = new Random(7);
  const stratum = { plan: "free", isRunaway } as const;
  return Array.from({ length: 10 }, () => simulateKeyDay(stratum, assumptions, random));
}

describe("a simulated day", () => {
  test.for(["waits", "backsOff", "hammers"] as const)(
    "never admits more than the limits: a client that %s",
    (behaviour) => {
      for (const day of greedyDays({ [behaviour]: 1 })) {
        expect(day.admitted).toBeGreaterThan(60);
        expect(day.admitted).toBeLessThanOrEqual(PLAN_LIMITS.free.perDay);
        // A window of a minute begins with a request: at most 61 touch an hour.
        const perHour = 61 * PLAN_LIMITS.free.perMinute;
        expect(Math.max(...day.admittedByHour)).toBeLessThanOrEqual(perHour);
      }
    },
  );

  test("bans none that waits, and hammers only", () => {
    const bans = (days: KeyDay[]) => days.reduce((sum, day) => sum + day.bans, 0);
    expect(bans(greedyDays({ waits: 1 }))).toBe(0);
    expect(bans(greedyDays({ backsOff: 1 }))).toBe(0);
    expect(bans(greedyDays({ hammers: 1 }))).toBeGreaterThan(10);
  });

  test("answers a loop from memory, almost always under a ban", () => {
    for (const day of greedyDays({ waits: 1 }, { isRunaway: true, median: 10 })) {
      const refused = day.refusedByObject + day.refusedFromMemory;
      expect(refused).toBeGreaterThan(10_000);
      expect(day.refusedByBan / refused).toBeGreaterThan(0.9);
      expect(day.refusedByObject / refused).toBeLessThan(0.02);
    }
  });

  test("adds up", () => {
    for (const day of greedyDays({ hammers: 1 })) {
      expect(day.admittedByHour.reduce((sum, count) => sum + count, 0)).toBe(day.admitted);
      expect(day.cancellations + day.conditionalGapsMs.length).toBeLessThanOrEqual(day.admitted);
      expect(day.refusedByBan).toBeLessThanOrEqual(day.refusedByObject + day.refusedFromMemory);
      expect(day.reports).toBeLessThanOrEqual(24);
      const looksPerIsolate = 86_400 / 10 + 1;
      expect(day.keyLookUps).toBeLessThanOrEqual(4 * looksPerIsolate);
    }
  });
});

describe("the simulation", () => {
  test("is of the service as it is configured where nothing else is said", () => {
    const { bans, apiKeyFreshMs } = parseConfig({});
    expect(DEFAULT_ASSUMPTIONS.configuration).toEqual({ bans, apiKeyFreshMs });
  });

  test("is the same with the same seed, and another with another", () => {
    const simulate = (seed: number) => simulateTraffic({ ...smallSample(), seed });
    expect(simulate(1)).toEqual(simulate(1));
    expect(simulate(2).mean).not.toEqual(simulate(1).mean);
  });

  test("tells of an error that the means of other seeds stay within", () => {
    const means = [1, 2, 3, 4, 5, 6].map((seed) => simulateTraffic({ ...smallSample(), seed }));
    const admitted = means.map(({ mean }) => mean.admitted);
    const middle = admitted.reduce((sum, value) => sum + value, 0) / admitted.length;
    for (const { mean, error } of means) {
      expect(error).toBeGreaterThan(0.01);
      expect(Math.abs(mean.admitted - middle) / middle).toBeLessThan(4 * error);
    }
  });

  test("weighs the plans by their shares", () => {
    const assumptions = smallSample();
    const { mean, byPlan, activeShare } = simulateTraffic(assumptions);
    const plans = Object.entries(assumptions.plans) as [
      keyof typeof byPlan,
      { share: number; activeShare: number },
    ][];
    const sent = plans.reduce(
      (sum, [plan, { share, activeShare: active }]) =>
        sum + share * active * sentPerDay(byPlan[plan]),
      0,
    );
    expect(sentPerDay(mean)).toBeCloseTo(sent, 6);
    expect(activeShare).toBeCloseTo(0.85 * 0.3 + 0.12 * 0.7 + 0.028 * 0.95 + 0.002, 10);
  });

  test("is busier by day than by night", () => {
    const flat = { ...smallSample(), dailyCycle: { amplitude: 0, peakHour: 15 } };
    const { peakFactor } = simulateTraffic(smallSample());
    expect(peakFactor).toBeGreaterThan(simulateTraffic(flat).peakFactor);
    expect(peakFactor).toBeGreaterThan(1.4);
  });
});

describe("gaps", () => {
  const gaps = new GapHistogram();
  gaps.add([1_000, 10_000, 100_000], 2);

  test("without any event all are counted", () => {
    expect(gaps.withoutEvent(0)).toBeCloseTo(6);
  });

  test("long ones meet an event sooner", () => {
    const expected = 2 * (Math.exp(-0.1) + Math.exp(-1) + Math.exp(-10));
    expect(gaps.withoutEvent(0.1)).toBeCloseTo(expected, 1);
  });
});
