import { limitsOf } from "./api-key.ts";
import type { ManagedKey } from "./managed-key.ts";

/**
 * A key's record as the commands show it, which leaves the hash out. Times are ISO 8601 in UTC; the
 * limits are those in force.
 */
export interface KeyRecord {
  readonly id: string;
  readonly plan: string;
  readonly name: string;
  readonly perMinute: number;
  readonly perDay: number;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
  /** When the key that the last rotation has replaced ends or ended; `null`: never rotated. */
  readonly formerKeyEndsAt: string | null;
}

export function toKeyRecord(key: ManagedKey): KeyRecord {
  const { perMinute, perDay } = limitsOf(key);
  return {
    id: key.id,
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
