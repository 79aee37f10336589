import type { apiKeys } from "../db/keys-schema.ts";
import { limiterName, type LimitedKey } from "../rate-limit/limiter.ts";
import { type Limits, PLAN_LIMITS } from "../limits/plans.ts";

/** An API key: the columns of its row that requests need. */
export type ApiKey = Omit<typeof apiKeys.$inferSelect, "lastFour">;

/** A key as one of its hashes finds it: the current one, or one from before a rotation. */
export interface FoundKey extends ApiKey {
  /** When the former hash that was looked up stops being valid; `null` for the current hash. */
  readonly hashEndsAt: Date | null;
}

/** Returns the limits of a key's plan; an Enterprise key has limits of its own. */
export function limitsOf({
  plan,
  perMinute,
  perDay,
}: Pick<ApiKey, "plan" | "perMinute" | "perDay">): Limits {
  if (plan !== "enterprise") return PLAN_LIMITS[plan];
  if (perMinute === null || perDay === null)
    throw new Error("An Enterprise key without limits of its own.");
  return { perMinute, perDay };
}

export const KEY_STATES = ["active", "expired", "revoked"] as const;
type KeyState = (typeof KEY_STATES)[number];

/** Returns a key's state at `nowMs` (Unix milliseconds). Revoked comes before expired. */
export function keyState(
  { expiresAt, revokedAt }: Pick<ApiKey, "expiresAt" | "revokedAt">,
  nowMs: number,
): KeyState {
  if (revokedAt !== null && revokedAt.getTime() <= nowMs) return "revoked";
  if (expiresAt !== null && expiresAt.getTime() <= nowMs) return "expired";
  return "active";
}

/** Returns what the limiter needs to know of a key. */
export function limitedKey(key: ApiKey): LimitedKey {
  const { id, revision, resets, locationHint } = key;
  const limits = limitsOf(key);
  return { name: limiterName(id), limits, revision, resets, bans: true, locationHint };
}
