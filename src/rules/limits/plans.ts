import { type PerWindow, WINDOW_NAMES, type WindowName } from "./windows.ts";

/** The names of the plans in the database and in commands (docs/limits.md, Plans). */
export const PLANS = ["free", "pro", "business", "enterprise"] as const;
export type Plan = (typeof PLANS)[number];

/** The number of requests that each window admits: a whole number, at least 1. */
export interface Limits {
  readonly perMinute: number;
  readonly perDay: number;
}

const LIMIT_NAMES: PerWindow<keyof Limits> = { minute: "perMinute", day: "perDay" };

export function limitOf(limits: Limits, name: WindowName): number {
  return limits[LIMIT_NAMES[name]];
}

export function isSameLimits(one: Limits, other: Limits): boolean {
  return WINDOW_NAMES.every((name) => limitOf(one, name) === limitOf(other, name));
}

/** The limits of the plans. Each Enterprise key has limits of its own. */
export const PLAN_LIMITS: Readonly<Record<Exclude<Plan, "enterprise">, Limits>> = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
};

/** The largest limit that an Enterprise key can have, in requests. */
export const MAX_LIMIT = 1_000_000_000;
