import { type Limits, type Plan, PLAN_LIMITS } from "../limits/plans.ts";

interface KeyLimits {
  readonly plan: Plan;
  /** Individual rate limits, set only for Enterprise keys. */
  readonly perMinute: number | null;
  readonly perDay: number | null;
}

/** Returns the limits of a key's plan, or the individual limits of an Enterprise key. */
export function limitsOf({ plan, perMinute, perDay }: KeyLimits): Limits {
  // A later version may have stored a plan that this one does not know.
  if (plan !== "enterprise" && Object.hasOwn(PLAN_LIMITS, plan)) return PLAN_LIMITS[plan];
  if (plan !== "enterprise") throw new Error("This version does not know the plan of the key.");
  if (perMinute === null || perDay === null) {
    throw new Error("An Enterprise key without limits of its own.");
  }
  return { perMinute, perDay };
}

const KEY_STATES = ["active", "expired", "revoked"] as const;

/** The states of a key as operators see them. An expired or revoked key is never `banned`. */
export const KEY_STATES_AND_BAN = [...KEY_STATES, "banned"] as const;
export type KeyStateOrBan = (typeof KEY_STATES_AND_BAN)[number];

/**
 * Returns a key's state at `nowMs` (Unix milliseconds). A revoked key is revoked whatever the time
 * of its revocation: the clock of the machine that wrote it may be wrong.
 */
export function keyState(
  { expiresAt, revokedAt }: { readonly expiresAt: Date | null; readonly revokedAt: Date | null },
  nowMs: number,
): (typeof KEY_STATES)[number] {
  if (revokedAt !== null) return "revoked";
  return expiresAt !== null && expiresAt.getTime() <= nowMs ? "expired" : "active";
}
