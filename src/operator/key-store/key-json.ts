import { limitsOf } from "../../worker/api-keys/api-key.ts";
import { type KeyDetails, keyStateOrBan, type KeyStateOrBan } from "./key-details.ts";

/** What operators change of a key. Times are in ISO 8601 in UTC; the limits are those in force. */
export interface KeySettingsJson {
  readonly plan: string;
  readonly name: string;
  readonly perMinute: number;
  readonly perDay: number;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  /** The region of `--near`, in which the key's Durable Object is created; `null`: none. */
  readonly locationHint: string | null;
  readonly revokedAt: string | null;
  /** When the secret that the last rotation replaced ends or ended; `null`: never rotated. */
  readonly formerKeyEndsAt: string | null;
}

/** A key as the commands print it with `--json`: without the hash. */
interface KeyJson extends KeySettingsJson {
  readonly id: string;
  /** The last four characters of the secret; `null` for a secret older than this field. */
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
    locationHint: key.locationHint,
    revokedAt: key.revokedAt?.toISOString() ?? null,
    formerKeyEndsAt: key.formerKeyEnds.at(-1)?.toISOString() ?? null,
  };
}
