import { limitsOf } from "../../worker/api-keys/api-key.ts";
import { type KeyDetails, keyStateOrBan, type KeyStateOrBan } from "./key-details.ts";

/**
 * The settings of a key as JSON. Times are in ISO 8601 in UTC. `perMinute` and `perDay` are the
 * limits of the plan, or the key's own limits on the Enterprise plan.
 */
export interface KeySettingsJson {
  readonly plan: string;
  readonly name: string;
  readonly perMinute: number;
  readonly perDay: number;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  /** The region of `--near`, in which the key's Durable Object is created; `null` if not given. */
  readonly locationHint: string | null;
  readonly revokedAt: string | null;
  /**
   * When the secret before the last rotation becomes or became invalid; `null` if the key was never
   * rotated.
   */
  readonly formerKeyEndsAt: string | null;
}

/** A key as the commands print it with `--json`. The hash of the secret is left out. */
interface KeyJson extends KeySettingsJson {
  readonly id: string;
  /**
   * The last four characters of the secret; `null` if the secret is older than the column
   * `last_four`.
   */
  readonly lastFour: string | null;
  readonly state: KeyStateOrBan;
  /** The end of the ban that is in force; `null` if the key is not banned. */
  readonly bannedUntil: string | null;
}

export function toKeyJson(key: KeyDetails, now: Date): KeyJson {
  const { id, lastFour, bannedUntil } = key;
  const isBanned = bannedUntil !== null && bannedUntil > now;
  return {
    id,
    ...toSettingsJson(key),
    lastFour,
    state: keyStateOrBan(key, now),
    bannedUntil: isBanned ? bannedUntil.toISOString() : null,
  };
}

export function toSettingsJson(key: KeyDetails): KeySettingsJson {
  const { perMinute, perDay } = limitsOf(key);
  return {
    plan: key.plan,
    name: key.name,
    perMinute,
    perDay,
    createdAt: key.createdAt.toISOString(),
    expiresAt: key.expiresAt?.toISOString() ?? null,
    locationHint: key.locationHint,
    revokedAt: key.revokedAt?.toISOString() ?? null,
    formerKeyEndsAt: key.formerKeyEnds.at(-1)?.toISOString() ?? null,
  };
}
