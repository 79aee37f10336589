/** The plans, as the database and the commands name them (docs/limits.md). */
export const PLANS = ["free", "pro", "business", "enterprise"] as const;
export type Plan = (typeof PLANS)[number];

/** How many requests each of the two windows admits: whole numbers, at least 1. */
export interface Limits {
  readonly perMinute: number;
  readonly perDay: number;
}

/** Whether two keys may send the same number of requests. */
export function isSameLimits(one: Limits, other: Limits): boolean {
  return one.perMinute === other.perMinute && one.perDay === other.perDay;
}

/** The limits of the plans; an Enterprise key has its own (docs/limits.md). */
export const PLAN_LIMITS: Readonly<Record<Exclude<Plan, "enterprise">, Limits>> = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
};

/** The largest limit that an Enterprise key can have, in requests. */
export const MAX_LIMIT = 1_000_000_000;
