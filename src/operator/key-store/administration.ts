import type { Limits, Plan } from "../../worker/limits/plans.ts";
import {
  generateSecret,
  generateKeyId,
  hashSecret,
  lastFourOf,
} from "../../worker/api-keys/secret.ts";
import type { KeyDetails } from "./key-details.ts";

/** What the operator settles about a key. `limits`: of its own where the plan is Enterprise. */
export interface KeySettings {
  readonly name: string;
  readonly plan: Plan;
  readonly limits: Limits | null;
  readonly expiresAt: Date | null;
}

/** A new key with its record. Nothing else ever holds the key itself (contract, section 3). */
export interface CreatedKey {
  readonly key: string;
  readonly record: KeyDetails;
}

/** Makes a key and its record. */
export function createApiKey(settings: KeySettings, now: Date): CreatedKey {
  const { name, plan, limits, expiresAt } = settings;
  const key = generateSecret();
  const record = {
    id: generateKeyId(),
    hash: hashSecret(key),
    lastFour: lastFourOf(key),
    name,
    plan,
    perMinute: limits?.perMinute ?? null,
    perDay: limits?.perDay ?? null,
    createdAt: now,
    expiresAt,
    revokedAt: null,
    revision: 0,
    resets: 0,
    formerKeyEnds: [],
    bannedUntil: null,
  };
  return { key, record };
}

/** Changes a key's settings; those left out stay. */
export function updateApiKey(
  current: KeyDetails,
  { limits, ...settings }: Partial<KeySettings>,
): KeyDetails {
  const ownLimits =
    limits === undefined
      ? {}
      : { perMinute: limits?.perMinute ?? null, perDay: limits?.perDay ?? null };
  return { ...current, ...settings, ...ownLimits };
}

/**
 * Gives a record a new key. The present one stays valid beside it until `formerEndsAt`, and those
 * that earlier rotations have replaced until then at the most.
 */
export function rotateApiKey(current: KeyDetails, formerEndsAt: Date, now: Date): CreatedKey {
  const key = generateSecret();
  const earlierEnds = current.formerKeyEnds
    .filter((end) => end > now)
    .map((end) => (end < formerEndsAt ? end : formerEndsAt));
  const record = {
    ...current,
    hash: hashSecret(key),
    lastFour: lastFourOf(key),
    formerKeyEnds: [...earlierEnds, formerEndsAt],
  };
  return { key, record };
}

/** Revokes a key for good. A key that is revoked already keeps its first time of revocation. */
export function revokeApiKey(current: KeyDetails, now: Date): KeyDetails {
  return { ...current, revokedAt: current.revokedAt ?? now };
}

/** Has the key's limiter empty both windows and lift a ban when it next meets the record. */
export function resetApiKey(current: KeyDetails): KeyDetails {
  return { ...current, resets: current.resets + 1, bannedUntil: null };
}
