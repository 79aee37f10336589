import type { apiKeys } from "../db/keys-schema.ts";
import { limiterName, type LimitedKey } from "../rate-limit/limiter.ts";
import { type Limits, PLAN_LIMITS } from "../limits/plans.ts";

/** The record of an API key, as far as requests need it. */
export type ApiKey = Omit<typeof apiKeys.$inferSelect, "lastFour">;

/** A key as a hash finds it: its own, or one that it had before a rotation. */
export interface FoundKey extends ApiKey {
  /** From when on a former hash is no longer valid; `null` for the key's own. */
  readonly hashEndsAt: Date | null;
}

/** The limits of a key: its plan's, or its own where the plan is Enterprise. */
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
export type KeyState = (typeof KEY_STATES)[number];

/** Whether a key can be used at `nowMs` (Unix milliseconds), and if not, why. */
export function keyState(
  { expiresAt, revokedAt }: Pick<ApiKey, "expiresAt" | "revokedAt">,
  nowMs: number,
): KeyState {
  if (revokedAt !== null && revokedAt.getTime() <= nowMs) return "revoked";
  if (expiresAt !== null && expiresAt.getTime() <= nowMs) return "expired";
  return "active";
}

/** The subject that counts the requests of a key (contract, section 4). */
export function limitedKey(apiKey: ApiKey): LimitedKey {
  const { id, revision, resets } = apiKey;
  return { name: limiterName(id), limits: limitsOf(apiKey), revision, resets, bans: true };
}
