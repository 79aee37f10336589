import { PLANS } from "../../../db/schema.ts";
import type { Plan } from "../../../rate-limit/plans.ts";
import type { Assumptions } from "../assumptions.ts";
import type { KeyDay } from "./client-day.ts";
import { type DayMeans, meanDay, weighedDay } from "./day-means.ts";
import { GapHistogram } from "./gap-histogram.ts";
import { simulateKeyDay } from "./key-day.ts";
import { Random } from "./random.ts";

/** What the simulation of a sample says of any number of keys. */
export interface Traffic {
  /** A day of one key, those that send nothing included. */
  readonly mean: DayMeans;
  /** A day of an active key of each plan. */
  readonly byPlan: Readonly<Record<Plan, DayMeans>>;
  /** Share of the keys that are active on a day. */
  readonly activeShare: number;
  /** The standard error of `mean.admitted`, as a share of it. */
  readonly error: number;
  /** Lists with `If-None-Match` per key and day, by the time since the last one. */
  readonly conditionalLists: GapHistogram;
  /** How much busier the busiest hour is than the average one. */
  readonly peakFactor: number;
  readonly sampledKeys: number;
}

/** Keys that are alike, a few of which are simulated for all. */
interface Stratum {
  readonly plan: Plan;
  readonly isRunaway: boolean;
  /** Share of all keys: those that are active on a day. */
  readonly weight: number;
  readonly sample: number;
}

interface Sampled extends Stratum {
  readonly days: readonly KeyDay[];
}

/**
 * Simulates a day of a sample of keys and weighs each by how many it stands for. Clients that run
 * wild are a sample of their own: they are few, and one of them sends as much as hundreds.
 *
 * @param onProgress is told the share of the sample that is done.
 */
export function simulateTraffic(
  assumptions: Assumptions,
  onProgress: (share: number) => void = () => undefined,
): Traffic {
  const random = new Random(assumptions.seed);
  const strata = strataOf(assumptions);
  const sampledKeys = strata.reduce((sum, { sample }) => sum + sample, 0);
  let simulated = 0;
  const samples = strata.map((stratum): Sampled => {
    const days = Array.from({ length: stratum.sample }, () => {
      simulated += 1;
      onProgress(simulated / sampledKeys);
      return simulateKeyDay(stratum, assumptions, random);
    });
    return { ...stratum, days };
  });
  const mean = weighedDay(samples.map(({ weight, days }) => ({ weight, mean: meanDay(days) })));
  return {
    mean,
    byPlan: byPlan(samples),
    activeShare: strata.reduce((sum, { weight }) => sum + weight, 0),
    error: Math.sqrt(varianceOfMean(samples)) / mean.admitted,
    conditionalLists: conditionalLists(samples),
    peakFactor: peakFactor(samples),
    sampledKeys,
  };
}

/** Requests of every kind that carry a key. */
export function sentPerDay({ admitted, refusedByObject, refusedFromMemory }: DayMeans): number {
  return admitted + refusedByObject + refusedFromMemory;
}

function strataOf({ plans, runaways }: Assumptions): Stratum[] {
  return PLANS.flatMap((plan) => {
    const active = plans[plan].share * plans[plan].activeShare;
    const weight = active * runaways.share;
    return [
      { plan, isRunaway: false, weight: active - weight, sample: plans[plan].sample },
      { plan, isRunaway: true, weight, sample: runaways.sample },
    ];
  });
}

function byPlan(samples: readonly Sampled[]): Record<Plan, DayMeans> {
  const ofPlan = (plan: Plan) => {
    const own = samples.filter((sampled) => sampled.plan === plan);
    const active = own.reduce((sum, { weight }) => sum + weight, 0);
    const shares = own.map(({ weight, days }) => ({
      weight: weight / active,
      mean: meanDay(days),
    }));
    return [plan, weighedDay(shares)];
  };
  return Object.fromEntries(PLANS.map(ofPlan)) as Record<Plan, DayMeans>;
}

function conditionalLists(samples: readonly Sampled[]): GapHistogram {
  const lists = new GapHistogram();
  for (const { weight, sample, days } of samples) {
    for (const { conditionalGapsMs } of days) lists.add(conditionalGapsMs, weight / sample);
  }
  return lists;
}

function peakFactor(samples: readonly Sampled[]): number {
  const byHour = Array.from({ length: 24 }, (_, hour) =>
    samples.reduce((sum, { weight, sample, days }) => {
      const admitted = days.reduce((total, day) => total + (day.admittedByHour[hour] ?? 0), 0);
      return sum + (weight / sample) * admitted;
    }, 0),
  );
  return (Math.max(...byHour) * 24) / byHour.reduce((sum, count) => sum + count, 0);
}

function varianceOfMean(samples: readonly Sampled[]): number {
  return samples.reduce((sum, { weight, sample, days }) => {
    const mean = days.reduce((total, { admitted }) => total + admitted, 0) / sample;
    const squares = days.reduce((total, { admitted }) => total + (admitted - mean) ** 2, 0);
    return sum + (weight ** 2 * squares) / (sample - 1) / sample;
  }, 0);
}
