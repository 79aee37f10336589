import { PLAN_LIMITS } from "../../rate-limit/plans.ts";
import type { Assumptions } from "./assumptions.ts";

const DAY_MS = 86_400_000;

/**
 * A service for anybody: a long tail, where most keys are free and hardly used, and few make most of
 * the traffic. None of it was observed; replace it as soon as something was.
 */
export const DEFAULT_ASSUMPTIONS: Assumptions = {
  seed: 1,
  plans: {
    free: {
      share: 0.85,
      activeShare: 0.3,
      requestsPerDay: { median: 10, sigma: 1.8 },
      sample: 1_000,
      limits: PLAN_LIMITS.free,
    },
    pro: {
      share: 0.12,
      activeShare: 0.7,
      requestsPerDay: { median: 150, sigma: 1.5 },
      sample: 600,
      limits: PLAN_LIMITS.pro,
    },
    business: {
      share: 0.028,
      activeShare: 0.95,
      requestsPerDay: { median: 1_500, sigma: 1.2 },
      sample: 300,
      limits: PLAN_LIMITS.business,
    },
    enterprise: {
      share: 0.002,
      activeShare: 1,
      requestsPerDay: { median: 8_000, sigma: 1 },
      sample: 100,
      limits: { perMinute: 5_000, perDay: 500_000 },
    },
  },
  session: { requests: { median: 8, sigma: 1.3 }, pauseMs: { median: 500, sigma: 1 } },
  dailyCycle: { amplitude: 0.6, peakHour: 15 },
  refused: { waits: 0.8, backsOff: 0.15, hammers: 0.05 },
  patienceMs: 600_000,
  runaways: { share: 0.0005, sample: 20 },
  hammer: { perSecond: 10, seconds: 1_800 },
  cancelShare: 0.05,
  conditionalShare: 0.5,
  unauthorizedShare: 0.02,
  orderChangesPerDay: 0.005,
  network: { dataCentres: 50, isolates: 4, databaseRoundTripMs: 20, clientMbits: 100 },
  cost: {
    requestCpuMs: 1,
    objectCallMs: 10,
    databaseReadMs: 1,
    databaseWriteMs: 5,
    logBytes: 1_000,
    answerBytes: 700,
  },
  usageDaysKept: 365,
  configuration: {
    bans: {
      graceMs: 10_000,
      strikeWindowMs: 60_000,
      minStrikes: 60,
      maxStrikes: 1_000,
      firstBanMs: 60_000,
      longestBanMs: DAY_MS,
      forgetAfterMs: DAY_MS,
    },
    apiKeyFreshMs: 10_000,
  },
};
