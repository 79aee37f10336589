import {
  and,
  eq,
  getTableColumns,
  gt,
  inArray,
  isNull,
  lte,
  not,
  or,
  type SQL,
  sql,
} from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { apiKeys } from "../../schema/keys.ts";
import type { Plan } from "../../worker/limit-rules/plans.ts";
import { type ApiKey, KEY_STATES, keyState } from "../../worker/api-keys/api-key.ts";

type Database = BaseSQLiteDatabase<"async", unknown>;

/** A key as the operator sees it: with its rotations and its ban. */
export interface KeyDetails extends ApiKey {
  /**
   * The last four characters of the secret; `null` if the secret is older than the column
   * `last_four`.
   */
  readonly lastFour: string | null;
  /** When the secrets that rotations have replaced become or became invalid, in ascending order. */
  readonly formerKeyEnds: readonly Date[];
  /** When the last ban ends or ended, lifted bans excluded; `null` if there is no such ban. */
  readonly bannedUntil: Date | null;
}

export const KEY_STATES_AND_BAN = [...KEY_STATES, "banned"] as const;
export type KeyStateOrBan = (typeof KEY_STATES_AND_BAN)[number];

/** Returns the state of a key. An expired or revoked key is never reported as banned. */
export function keyStateOrBan(key: KeyDetails, now: Date): KeyStateOrBan {
  const state = keyState(key, now.getTime());
  const isBanned = key.bannedUntil !== null && key.bannedUntil > now;
  return state === "active" && isBanned ? "banned" : state;
}

/** Selects the keys that match every field that is set. */
export interface KeyFilter {
  readonly plan?: Plan | undefined;
  readonly state?: KeyStateOrBan | undefined;
  /** A part of the name, case-insensitive. */
  readonly name?: string | undefined;
  /** Selects keys that expire at this time or earlier, and are neither expired nor revoked yet. */
  readonly expiresUntil?: Date | undefined;
}

/** Returns the keys that match a filter at the time `now`, the oldest first. */
export async function listApiKeys(
  database: Database,
  { plan, state, name, expiresUntil }: KeyFilter,
  now: Date,
): Promise<KeyDetails[]> {
  const keys = await database
    .select(KEY_DETAILS)
    .from(apiKeys)
    .where(
      and(
        plan === undefined ? undefined : eq(apiKeys.plan, plan),
        state === undefined ? undefined : hasState(state, now),
        expiresUntil === undefined
          ? undefined
          : and(isUsable(now), lte(apiKeys.expiresAt, expiresUntil)),
      ),
    )
    .orderBy(apiKeys.createdAt, apiKeys.id);
  // Compares names in JavaScript rather than in SQL, because SQLite ignores the case of ASCII
  // letters only.
  return name === undefined ? keys : keys.filter((key) => fold(key.name).includes(fold(name)));
}

/** Finds the key whose secret has this hash, or had this hash before a rotation. */
export async function findApiKeyByHash(
  database: Database,
  hash: string,
): Promise<KeyDetails | undefined> {
  const former = sql`(SELECT key_id FROM former_key_hashes WHERE former_key_hashes.hash = ${hash})`;
  const [key] = await database
    .select(KEY_DETAILS)
    .from(apiKeys)
    .where(or(eq(apiKeys.hash, hash), eq(apiKeys.id, former)));
  return key;
}

/**
 * Finds the keys whose secret ends with these characters, or ended before a rotation, the oldest
 * first.
 *
 * @param ending one to four characters, in lower case.
 */
export async function findApiKeysByEnding(
  database: Database,
  ending: string,
): Promise<KeyDetails[]> {
  const former = sql`(SELECT key_id FROM former_key_hashes WHERE substr(former_key_hashes.last_four, ${-ending.length}) = ${ending})`;
  return database
    .select(KEY_DETAILS)
    .from(apiKeys)
    .where(
      or(
        eq(sql`substr(${apiKeys.lastFour}, ${-ending.length})`, ending),
        inArray(apiKeys.id, former),
      ),
    )
    .orderBy(apiKeys.createdAt, apiKeys.id);
}

export async function findApiKey(database: Database, id: string): Promise<KeyDetails | undefined> {
  const [key] = await database.select(KEY_DETAILS).from(apiKeys).where(eq(apiKeys.id, id));
  return key;
}

/**
 * The columns of a query for keys. The subqueries are plain SQL, because they must name
 * `api_keys.id`, and drizzle writes only `id` if a query has one table.
 */
const KEY_DETAILS = {
  ...getTableColumns(apiKeys),
  formerKeyEnds:
    sql`(SELECT json_group_array(ends_at) FROM former_key_hashes WHERE former_key_hashes.key_id = api_keys.id)`
      .mapWith(toTimes)
      .as("former_key_ends"),
  bannedUntil:
    sql`(SELECT max(ends_at) FROM key_bans WHERE key_bans.key_id = api_keys.id AND lifted_at IS NULL)`
      // The parameter is never NULL: drizzle returns `null` for NULL without calling this function.
      .mapWith((ms: number): Date | null => new Date(ms))
      .as("banned_until"),
};

function toTimes(json: string): Date[] {
  const times = JSON.parse(json) as number[];
  return times.sort((one, other) => one - other).map((ms) => new Date(ms));
}

/** Returns the SQL condition that `keyStateOrBan` returns this state for a key. */
function hasState(state: KeyStateOrBan, now: Date): SQL | undefined {
  const { revokedAt, expiresAt } = apiKeys;
  if (state === "revoked") return lte(revokedAt, now);
  if (state === "expired") return and(isNotRevoked(now), lte(expiresAt, now));
  const isBanned = sql`EXISTS (SELECT 1 FROM key_bans WHERE key_bans.key_id = api_keys.id AND lifted_at IS NULL AND ends_at > ${now.getTime()})`;
  return and(isUsable(now), state === "banned" ? isBanned : not(isBanned));
}

function isUsable(now: Date): SQL | undefined {
  const { expiresAt } = apiKeys;
  return and(isNotRevoked(now), or(isNull(expiresAt), gt(expiresAt, now)));
}

function isNotRevoked(now: Date): SQL | undefined {
  return or(isNull(apiKeys.revokedAt), gt(apiKeys.revokedAt, now));
}

function fold(text: string): string {
  return text.normalize("NFC").toLowerCase();
}
