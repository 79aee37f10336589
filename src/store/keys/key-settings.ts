import { keyState, limitsOf } from "../../rules/keys/api-key.ts";
import type { LocationHint } from "../../rules/keys/location-hints.ts";
import type { Limits, Plan } from "../../rules/limits/plans.ts";
import type { apiKeys } from "../../schema/keys.ts";
import { Refusal } from "../refusal.ts";
import { generateKeyId, newSecret } from "./new-secret.ts";

/** A key with its rotations and its ban. */
export interface KeyDetails extends Readonly<typeof apiKeys.$inferSelect> {
  /** The end of the last replaced secret, also if past; `null` if none was. Older ones end no later. */
  readonly formerKeyEndsAt: Date | null;
  /** The end of the ban in force when the key was read; `null` if there was none. */
  readonly bannedUntil: Date | null;
}

/** A key and the time of the database, on which the key's state depends. */
export type KeyAtTime = readonly [key: KeyDetails, now: Date];

export interface NewKeySettings {
  readonly name: string;
  readonly plan: Plan;
  /** The key's own limits, on the Enterprise plan only. */
  readonly limits?: Limits | null;
  readonly expiresAt?: Date | null | undefined;
  /** The region of the key's Durable Object, which never moves; `null`: near its first use. */
  readonly locationHint?: LocationHint | null | undefined;
}

/** The own limits of a key on every other plan. */
export const NO_LIMITS = { perMinute: null, perDay: null };

/** A key's record and, as `key`, its secret, which is not stored (docs/api.md, Authentication). */
export interface CreatedKey {
  readonly key: string;
  readonly record: KeyDetails;
}

/**
 * Creates a key and its secret, without storing them.
 *
 * @throws {Refusal} `expiry_in_past`.
 */
export function createApiKey(settings: NewKeySettings, now: Date): CreatedKey {
  const { name, plan, limits, expiresAt = null, locationHint = null } = settings;
  refusePast(expiresAt, now);
  const { key, ...hashed } = newSecret();
  const given = { name, plan, ...(limits ?? NO_LIMITS), expiresAt, locationHint, createdAt: now };
  const unchanged = { revision: 0, resets: 0, revokedAt: null, formerKeyEndsAt: null };
  const record = { id: generateKeyId(), ...hashed, ...given, ...unchanged, bannedUntil: null };
  return { key, record };
}

/** Limits of which each may be missing. */
type GivenLimits = { readonly [Name in keyof Limits]?: number | undefined };

/** The settings to change; those that are left out stay. `expiresAt`: `null` means never. */
export interface ChangedSettings extends GivenLimits {
  readonly name?: string | undefined;
  readonly plan?: Plan | undefined;
  readonly expiresAt?: Date | null | undefined;
}

/**
 * Returns the key with changed settings.
 *
 * @throws {Refusal} `limits_missing`, `limits_not_allowed` or `expiry_in_past`.
 * @throws an Error if this version does not know the plan, whose limits would be lost.
 */
export function updateApiKey(
  current: KeyDetails,
  { name = current.name, plan = current.plan, expiresAt, ...given }: ChangedSettings,
  now: Date,
): KeyDetails {
  if (expiresAt !== undefined) refusePast(expiresAt, now);
  const limits = ownLimits(plan, given, current) ?? NO_LIMITS;
  const ends = expiresAt === undefined ? current.expiresAt : expiresAt;
  const next = { ...current, name, expiresAt: ends, plan, ...limits };
  limitsOf(next);
  return next;
}

/**
 * Returns the own limits of a key on this plan: the given ones, or else its present ones; `null` if
 * the plan has fixed limits.
 *
 * @throws {Refusal} `limits_missing` or `limits_not_allowed`.
 */
export function ownLimits(plan: Plan, given: GivenLimits, current?: KeyDetails): Limits | null {
  if (plan === "enterprise") {
    const perMinute = given.perMinute ?? current?.perMinute ?? null;
    const perDay = given.perDay ?? current?.perDay ?? null;
    if (perMinute !== null && perDay !== null) return { perMinute, perDay };
    throw new Refusal("limits_missing", "the plan enterprise needs perMinute and perDay");
  }
  if (given.perMinute === undefined && given.perDay === undefined) return null;
  throw new Refusal(
    "limits_not_allowed",
    `the plan ${plan} has fixed limits: perMinute and perDay are for the plan enterprise only`,
  );
}

function refusePast(expiresAt: Date | null, now: Date): void {
  if (expiresAt === null || expiresAt > now) return;
  throw new Refusal(
    "expiry_in_past",
    `the expiry ${expiresAt.toISOString()} is in the past; \`revoke\` ends a key at once`,
  );
}

/**
 * Returns the key with a new secret. The former secrets stay valid for at most `graceMs`.
 *
 * @throws {Refusal} `key_not_active`.
 */
export function rotateApiKey(current: KeyDetails, now: Date, graceMs: number): CreatedKey {
  const state = keyState(current, now.getTime());
  if (state !== "active") {
    throw new Refusal("key_not_active", `the key is ${state}: create a new one`);
  }
  const { key, ...hashed } = newSecret();
  const formerKeyEndsAt = graceMs === 0 ? null : new Date(now.getTime() + graceMs);
  return { key, record: { ...current, ...hashed, formerKeyEndsAt } };
}

/** Returns the key as revoked. A key that is already revoked keeps its time of revocation. */
export function revokeApiKey(current: KeyDetails, now: Date): KeyDetails {
  return { ...current, revokedAt: current.revokedAt ?? now };
}

/** Returns the key with one more reset, so that its limiter forgets the windows and the bans. */
export function resetApiKey(current: KeyDetails): KeyDetails {
  return { ...current, resets: current.resets + 1, bannedUntil: null };
}
