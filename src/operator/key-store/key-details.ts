import sql, { empty, raw, type Sql } from "sql-template-tag";
import type { Plan } from "../../rules/limits/plans.ts";
import {
  type ApiKey,
  KEY_COLUMNS,
  KEY_STATES,
  keyState,
  limitsOf,
  type Stored,
  toApiKey,
  toDate,
} from "../../rules/keys/api-key.ts";
import type { StoreDatabase } from "../database/database.ts";

export type Database = Pick<StoreDatabase, "all">;

/** A key as the operator sees it: with its rotations and its ban. */
export interface KeyDetails extends ApiKey {
  /** The last four characters of the secret; `null` if it was made before this field existed. */
  readonly lastFour: string | null;
  /** The times at which former secrets become or became invalid, in ascending order. */
  readonly formerKeyEnds: readonly Date[];
  /** The end of the last ban that was not lifted, even if past; `null` if there is none. */
  readonly bannedUntil: Date | null;
}

export const KEY_STATES_AND_BAN = [...KEY_STATES, "banned"] as const;
export type KeyStateOrBan = (typeof KEY_STATES_AND_BAN)[number];

/** Returns the state of a key. An expired or revoked key is never `banned`. */
export function keyStateOrBan(key: KeyDetails, now: Date): KeyStateOrBan {
  const state = keyState(key, now.getTime());
  return state === "active" && banEnd(key, now) !== null ? "banned" : state;
}

/** Returns the end of the ban in force; `null` if there is none. */
export function banEnd({ bannedUntil }: KeyDetails, now: Date): Date | null {
  return bannedUntil !== null && bannedUntil > now ? bannedUntil : null;
}

/** Selects the keys that match every field that is set. */
export interface KeyFilter {
  readonly plan?: Plan | undefined;
  readonly state?: KeyStateOrBan | undefined;
  /** A part of the name, case-insensitive. */
  readonly name?: string | undefined;
  /** Selects active keys that expire at this time or earlier. */
  readonly expiresUntil?: Date | undefined;
}

/** Returns the keys that match a filter at the time `now`, the oldest first. */
export async function listApiKeys(
  database: Database,
  { plan, state, name, expiresUntil }: KeyFilter,
  now: Date,
): Promise<KeyDetails[]> {
  // Filters in JavaScript, because `keyStateOrBan` defines the states, and because SQLite ignores
  // the case of ASCII letters only.
  const keys = await selectKeys(database, empty);
  return keys.filter(
    (key) =>
      (plan === undefined || key.plan === plan) &&
      (state === undefined || keyStateOrBan(key, now) === state) &&
      (name === undefined || fold(key.name).includes(fold(name))) &&
      (expiresUntil === undefined || expiresBy(key, expiresUntil, now)),
  );
}

function expiresBy(key: KeyDetails, time: Date, now: Date): boolean {
  const isUsable = keyState(key, now.getTime()) === "active";
  return isUsable && key.expiresAt !== null && key.expiresAt <= time;
}

function fold(text: string): string {
  return text.normalize("NFC").toLowerCase();
}

/** Finds the key with a present or former secret of this hash. */
export async function findApiKeyByHash(
  database: Database,
  hash: string,
): Promise<KeyDetails | undefined> {
  const former = sql`SELECT key_id FROM former_key_hashes WHERE hash = ${hash}`;
  const [key] = await selectKeys(database, sql`WHERE own.hash = ${hash} OR own.id = (${former})`);
  return key;
}

/** Finds the keys with a present or former secret that ends in these 1 to 4 characters. */
export async function findApiKeysByEnding(
  database: Database,
  ending: string,
): Promise<KeyDetails[]> {
  const endsSo = sql`substr(last_four, ${-ending.length}) = ${ending}`;
  const former = sql`SELECT key_id FROM former_key_hashes WHERE ${endsSo}`;
  return selectKeys(database, sql`WHERE ${endsSo} OR own.id IN (${former})`);
}

export async function findApiKey(database: Database, id: string): Promise<KeyDetails | undefined> {
  return (await selectKeys(database, sql`WHERE own.id = ${id}`))[0];
}

interface Row extends Stored<Omit<KeyDetails, "formerKeyEnds">> {
  /** A JSON array of Unix milliseconds. */
  readonly formerKeyEnds: string;
}

async function selectKeys(database: Database, where: Sql): Promise<KeyDetails[]> {
  const rows = await database.all<Row>(sql`
    SELECT ${raw(KEY_COLUMNS)}, own.last_four AS lastFour,
      (SELECT json_group_array(ends_at) FROM former_key_hashes WHERE key_id = own.id) AS formerKeyEnds,
      (SELECT max(ends_at) FROM key_bans WHERE key_id = own.id AND lifted_at IS NULL) AS bannedUntil
    FROM api_keys AS own ${where} ORDER BY own.created_at, own.id`);
  return rows.map((row) => ({
    ...toApiKey(row),
    formerKeyEnds: toTimes(row.formerKeyEnds),
    bannedUntil: toDate(row.bannedUntil),
  }));
}

function toTimes(json: string): Date[] {
  const times = JSON.parse(json) as number[];
  return times.sort((one, other) => one - other).map((ms) => new Date(ms));
}

/** Returns the SQL condition for a ban that has not ended at the time `at` and was not lifted. */
export function isInForce(at: Date): Sql {
  return sql`ends_at > ${at.getTime()} AND lifted_at IS NULL`;
}

/** Returns a key's settings as JSON, with the limits that apply: the key's own or its plan's. */
export function toSettingsJson(key: KeyDetails) {
  const { plan, name, createdAt, expiresAt, revokedAt, locationHint, formerKeyEnds } = key;
  return {
    plan,
    name,
    ...limitsOf(key),
    createdAt: createdAt.toISOString(),
    expiresAt: toIso(expiresAt),
    locationHint,
    revokedAt: toIso(revokedAt),
    /** The time at which the last replaced secret becomes or became invalid; `null` if none. */
    formerKeyEndsAt: toIso(formerKeyEnds.at(-1)),
  };
}

/** Returns a key as the commands print it with `--json`, without the hash of its secret. */
export function toKeyJson(key: KeyDetails, now: Date) {
  return {
    id: key.id,
    ...toSettingsJson(key),
    lastFour: key.lastFour,
    state: keyStateOrBan(key, now),
    bannedUntil: toIso(banEnd(key, now)),
  };
}

function toIso(time: Date | null | undefined): string | null {
  return time?.toISOString() ?? null;
}
