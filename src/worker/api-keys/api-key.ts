import type { apiKeys } from "../../schema/keys.ts";
import { type Limits, PLAN_LIMITS } from "../limit-rules/plans.ts";

/** An API key: the columns of `api_keys` that requests need. */
export type ApiKey = Omit<typeof apiKeys.$inferSelect, "lastFour">;

export interface FoundKey extends ApiKey {
  /** When the hash that was looked up expires, if it is from before a rotation. */
  readonly hashEndsAt: Date | null;
}

/** Returns the limits of a key's plan, or the individual limits of an Enterprise key. */
export function limitsOf(key: Pick<ApiKey, "plan" | "perMinute" | "perDay">): Limits {
  const { plan, perMinute, perDay } = key;
  if (plan !== "enterprise") return PLAN_LIMITS[plan];
  if (perMinute === null || perDay === null)
    throw new Error("An Enterprise key without limits of its own.");
  return { perMinute, perDay };
}

export const KEY_STATES = ["active", "expired", "revoked"] as const;

/** Returns a key's state at `nowMs` (Unix milliseconds). A revoked key stays `revoked`. */
export function keyState(
  { expiresAt, revokedAt }: Pick<ApiKey, "expiresAt" | "revokedAt">,
  nowMs: number,
): (typeof KEY_STATES)[number] {
  if (revokedAt !== null && revokedAt.getTime() <= nowMs) return "revoked";
  if (expiresAt !== null && expiresAt.getTime() <= nowMs) return "expired";
  return "active";
}
