import { limitsOf } from "../../worker/api-keys/api-key.ts";
import { type KeyDetails, keyStateOrBan, type KeyStateOrBan } from "./key-details.ts";

/** What an operator settles about a key. Times are ISO 8601 in UTC; the limits are those in force. */
export interface KeySettingsJson {
  readonly plan: string;
  readonly name: string;
  readonly perMinute: number;
  readonly perDay: number;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
  /** When the key that the last rotation replaced ends or ended; `null`: never rotated. */
  readonly formerKeyEndsAt: string | null;
}

/** A key's record as the commands show it: without the hash. */
export interface KeyJson extends KeySettingsJson {
  readonly id: string;
  /** The last four characters of the key; `null` for a key made before they were stored. */
  readonly lastFour: string | null;
  readonly state: KeyStateOrBan;
  /** The end of the ban that is in force; `null`: not banned. */
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
    revokedAt: key.revokedAt?.toISOString() ?? null,
    formerKeyEndsAt: key.formerKeyEnds.at(-1)?.toISOString() ?? null,
  };
}
