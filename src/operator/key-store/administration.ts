import type { LocationHint } from "../../worker/db/location-hints.ts";
import type { Limits, Plan } from "../../worker/limits/plans.ts";
import {
  generateSecret,
  generateKeyId,
  hashSecret,
  lastFourOf,
} from "../../worker/api-keys/secret.ts";
import type { KeyDetails } from "./key-details.ts";

/** The settings of a key that its operator chooses. */
export interface KeySettings {
  readonly name: string;
  readonly plan: Plan;
  /** The key's own limits on the Enterprise plan; `null` on every other plan. */
  readonly limits: Limits | null;
  readonly expiresAt: Date | null;
}

/** The settings of a new key. */
export interface NewKeySettings extends KeySettings {
  /** Where to create the key's Durable Object. Cannot be changed later. */
  readonly locationHint?: LocationHint | null;
}

/** A key with a new secret, which is stored nowhere else (docs/api.md, Authentication). */
export interface CreatedKey {
  /** The secret. */
  readonly key: string;
  readonly record: KeyDetails;
}

/** Creates a key and its secret. Stores nothing. */
export function createApiKey(settings: NewKeySettings, now: Date): CreatedKey {
  const { name, plan, limits, expiresAt, locationHint = null } = settings;
  const secret = generateSecret();
  const details = {
    id: generateKeyId(),
    hash: hashSecret(secret),
    lastFour: lastFourOf(secret),
    name,
    plan,
    perMinute: limits?.perMinute ?? null,
    perDay: limits?.perDay ?? null,
    createdAt: now,
    expiresAt,
    revokedAt: null,
    revision: 0,
    resets: 0,
    locationHint,
    formerKeyEnds: [],
    bannedUntil: null,
  };
  return { key: secret, record: details };
}

/** Changes a key's settings. Settings that are left out stay. */
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
 * Gives a key a new secret. The current secret stays valid until `formerEndsAt`, and secrets that
 * earlier rotations replaced stay valid no longer than that.
 */
export function rotateApiKey(current: KeyDetails, formerEndsAt: Date, now: Date): CreatedKey {
  const secret = generateSecret();
  const earlierEnds = current.formerKeyEnds
    .filter((end) => end > now)
    .map((end) => (end < formerEndsAt ? end : formerEndsAt));
  const details = {
    ...current,
    hash: hashSecret(secret),
    lastFour: lastFourOf(secret),
    formerKeyEnds: [...earlierEnds, formerEndsAt],
  };
  return { key: secret, record: details };
}

/** Revokes a key for good. Revoking it again keeps the time of the first revocation. */
export function revokeApiKey(current: KeyDetails, now: Date): KeyDetails {
  return { ...current, revokedAt: current.revokedAt ?? now };
}

/** Resets a key. Its limiter empties both windows and lifts a ban once it learns the new count. */
export function resetApiKey(current: KeyDetails): KeyDetails {
  return { ...current, resets: current.resets + 1, bannedUntil: null };
}

/**
 * Refuses an expiry that is not in the future; `null` means never.
 *
 * @throws an Error for the operator.
 */
export function refusePast(expiresAt: Date | null, now: Date): void {
  if (expiresAt === null || expiresAt > now) return;
  throw new Error(
    `the expiry ${expiresAt.toISOString()} is in the past; \`revoke\` ends a key at once`,
  );
}
