import { type Limits, type Plan, PLAN_LIMITS } from "../limits/plans.ts";

/** The plan of a key. `perMinute` and `perDay` are set only for Enterprise keys. */
interface PlannedKey {
  readonly plan: Plan;
  readonly perMinute: number | null;
  readonly perDay: number | null;
}

/**
 * Returns the limits of a key's plan, or the individual limits of an Enterprise key.
 *
 * @throws {Error} for an Enterprise key without limits, and for a plan that this version lacks: a
 *   later version may have created the key.
 */
export function limitsOf({ plan, perMinute, perDay }: PlannedKey): Limits {
  const limits: Limits | undefined =
    plan === "enterprise"
      ? perMinute === null || perDay === null
        ? undefined
        : { perMinute, perDay }
      : PLAN_LIMITS[plan];
  if (limits === undefined) throw new Error("A key whose limits are unknown.");
  return limits;
}

export const KEY_STATES = ["active", "expired", "revoked"] as const;

/**
 * Returns a key's state at `nowMs` (Unix milliseconds). A key with a revocation is revoked, whatever
 * the clocks say: the machine that revoked it may have another time. Never becomes `expired` then.
 */
export function keyState(
  { expiresAt, revokedAt }: { readonly expiresAt: Date | null; readonly revokedAt: Date | null },
  nowMs: number,
): (typeof KEY_STATES)[number] {
  if (revokedAt !== null) return "revoked";
  return expiresAt !== null && expiresAt.getTime() <= nowMs ? "expired" : "active";
}
