import { and, desc, eq, gt, gte, isNull, or, type SQL, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { apiKeys, keyBans } from "../../schema/keys.ts";

type Database = BaseSQLiteDatabase<"async", unknown>;

/** A ban, with the name of the banned key. The name is `null` if the key no longer exists. */
export type KeyBan = typeof keyBans.$inferSelect & { readonly name: string | null };

/** Selects the bans of one key, or of all keys. Selects at most `limit` bans. */
interface BanFilter {
  readonly keyId?: string | undefined;
  /** Selects only bans that are in force at this time. */
  readonly inForceAt?: Date | undefined;
  readonly limit: number;
}

/** Returns the bans that match a filter, the newest first. */
export async function listKeyBans(
  database: Database,
  { keyId, inForceAt, limit }: BanFilter,
): Promise<KeyBan[]> {
  return database
    .select({
      keyId: keyBans.keyId,
      name: apiKeys.name,
      number: keyBans.number,
      beganAt: keyBans.beganAt,
      endsAt: keyBans.endsAt,
      liftedAt: keyBans.liftedAt,
    })
    .from(keyBans)
    .leftJoin(apiKeys, eq(apiKeys.id, keyBans.keyId))
    .where(
      and(
        keyId === undefined ? undefined : eq(keyBans.keyId, keyId),
        inForceAt === undefined ? undefined : isInForce(inForceAt),
      ),
    )
    .orderBy(desc(keyBans.beganAt), keyBans.keyId)
    .limit(limit);
}

/** A summary of the bans of a key that began on the same day. */
export interface BanDay {
  readonly keyId: string;
  /** The day in UTC, in the form `2026-11-21`. */
  readonly day: string;
  readonly bans: number;
  /**
   * The latest end of the bans that began on this day, in Unix milliseconds, lifted bans excluded;
   * `null` if all bans were lifted.
   */
  readonly untilMs: number | null;
}

/**
 * Summarizes bans by key and by the day on which they began. Includes the bans that began on
 * `firstDay` or later, and earlier bans that are still in force at `now`.
 */
export async function readBanDays(
  database: Database,
  { keyId, firstDay, now }: { keyId: string | undefined; firstDay: string; now: Date },
): Promise<BanDay[]> {
  const day = sql<string>`date(${keyBans.beganAt} / 1000, 'unixepoch')`;
  const liftedOrEnd = sql`CASE WHEN ${keyBans.liftedAt} IS NULL THEN ${keyBans.endsAt} END`;
  return database
    .select({
      keyId: keyBans.keyId,
      day: day.as("day"),
      bans: sql<number>`count(*)`.as("bans"),
      untilMs: sql<number | null>`max(${liftedOrEnd})`.as("until_ms"),
    })
    .from(keyBans)
    .where(
      and(
        keyId === undefined ? undefined : eq(keyBans.keyId, keyId),
        or(gte(keyBans.beganAt, new Date(firstDay)), isInForce(now)),
      ),
    )
    .groupBy(keyBans.keyId, day);
}

/** Returns the SQL condition that a ban has neither ended nor been lifted. */
export function isInForce(at: Date): SQL | undefined {
  return and(gt(keyBans.endsAt, at), isNull(keyBans.liftedAt));
}
