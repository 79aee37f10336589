import type { LocationHint } from "../../schema/location-hints.ts";
import type { Limits, Plan } from "../../worker/limit-rules/plans.ts";
import { generateSecret, generateKeyId, lastFourOf } from "./secret.ts";
import { hashSecret } from "../../worker/api-keys/secret.ts";
import type { KeyDetails } from "./key-details.ts";

const VERIFICATION = "Verification";
/**
 * The key of a verification expires after this time, even if nobody revokes it. A verification
 * takes two minutes.
 */
const VERIFICATION_MS = 10 * 60_000;

/** The settings of a new key. */
export interface NewKeySettings {
  readonly name: string;
  readonly plan: Plan;
  /** The key's own limits on the Enterprise plan; `null` on every other plan. */
  readonly limits: Limits | null;
  readonly expiresAt: Date | null;
  /** Where to create the key's Durable Object. Cannot be changed later. */
  readonly locationHint?: LocationHint | null;
}

/** A key and its new secret. The secret is stored nowhere (docs/api.md, Authentication). */
export interface CreatedKey {
  /** The secret, which clients call their API key. */
  readonly key: string;
  readonly record: KeyDetails;
}

/** Creates a key and its secret, without storing them. */
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

/**
 * Returns the key with a new secret. The current secret stays valid until `formerEndsAt`. Secrets
 * that earlier rotations replaced become invalid at `formerEndsAt` or earlier.
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

/** Returns the key as revoked. A key that is already revoked keeps the time of its revocation. */
export function revokeApiKey(current: KeyDetails, now: Date): KeyDetails {
  return { ...current, revokedAt: current.revokedAt ?? now };
}

/**
 * Returns the key with one more reset. When the key's limiter sees the larger number of resets, the
 * limiter clears the minute window and the day window, and lifts a ban.
 */
export function resetApiKey(current: KeyDetails): KeyDetails {
  return { ...current, resets: current.resets + 1, bannedUntil: null };
}

/**
 * Checks that an expiry is in the future.
 *
 * @param expiresAt `null` means that the key never expires.
 * @throws an Error for the operator if the expiry has passed.
 */
export function refusePast(expiresAt: Date | null, now: Date): void {
  if (expiresAt === null || expiresAt > now) return;
  throw new Error(
    `the expiry ${expiresAt.toISOString()} is in the past; \`revoke\` ends a key at once`,
  );
}

/** Creates the key with which `npm run verify` calls a service, without storing it. */
export function createVerificationKey(now: Date): CreatedKey {
  const expiresAt = new Date(now.getTime() + VERIFICATION_MS);
  return createApiKey({ name: VERIFICATION, plan: "free", limits: null, expiresAt }, now);
}

/** Returns whether `createVerificationKey` created a key. Lists leave such keys out. */
export function isVerificationKey({ name, createdAt, expiresAt }: KeyDetails): boolean {
  return name === VERIFICATION && expiresAt?.getTime() === createdAt.getTime() + VERIFICATION_MS;
}
