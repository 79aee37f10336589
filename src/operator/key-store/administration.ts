import type { LocationHint } from "../../rules/keys/location-hints.ts";
import type { Limits, Plan } from "../../rules/limits/plans.ts";
import { hashSecret } from "../../rules/keys/secret.ts";
import { type KeyDetails, verificationSettings } from "./key-details.ts";
import { generateKeyId, generateSecret } from "./secret.ts";

export interface NewKeySettings {
  readonly name: string;
  readonly plan: Plan;
  /** The key's own limits on the Enterprise plan; `null` on every other plan. */
  readonly limits: Limits | null;
  readonly expiresAt: Date | null;
  /** The region of the key's Durable Object, which never moves; `null`: near its first use. */
  readonly locationHint?: LocationHint | null;
}

/** A key's record and, as `key`, its secret, which is not stored (docs/api.md, Authentication). */
export interface CreatedKey {
  readonly key: string;
  readonly record: KeyDetails;
}

/** Creates a key and its secret, without storing them. */
export function createApiKey(settings: NewKeySettings, now: Date): CreatedKey {
  const { limits, locationHint = null, ...others } = settings;
  const { key, ...hashed } = newSecret();
  const record = {
    id: generateKeyId(),
    ...hashed,
    ...others,
    perMinute: limits?.perMinute ?? null,
    perDay: limits?.perDay ?? null,
    createdAt: now,
    revokedAt: null,
    revision: 0,
    resets: 0,
    locationHint,
    formerKeyEnds: [],
    bannedUntil: null,
  };
  return { key, record };
}

/** Returns the key with a new secret. Earlier secrets expire at `formerEndsAt` at the latest. */
export function rotateApiKey(current: KeyDetails, formerEndsAt: Date, now: Date): CreatedKey {
  const { key, ...hashed } = newSecret();
  const earlierEnds = current.formerKeyEnds
    .filter((end) => end > now)
    .map((end) => (end < formerEndsAt ? end : formerEndsAt));
  return { key, record: { ...current, ...hashed, formerKeyEnds: [...earlierEnds, formerEndsAt] } };
}

function newSecret() {
  const key = generateSecret();
  // The last four characters may be stored: they belong to the checksum, not to the random part.
  return { key, hash: hashSecret(key), lastFour: key.slice(-4) };
}

/** Returns the key as revoked. A key that is already revoked keeps its time of revocation. */
export function revokeApiKey(current: KeyDetails, now: Date): KeyDetails {
  return { ...current, revokedAt: current.revokedAt ?? now };
}

/** Returns the key with one more reset, so that its limiter forgets the windows and the bans. */
export function resetApiKey(current: KeyDetails): KeyDetails {
  return { ...current, resets: current.resets + 1, bannedUntil: null };
}

/** Creates the key of `npm run verify`, without storing it. */
export function createVerificationKey(now: Date): CreatedKey {
  return createApiKey(verificationSettings(now), now);
}
