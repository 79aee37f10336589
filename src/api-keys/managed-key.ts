import { and, eq, getTableColumns, gt, isNull, lte, or, type SQL, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { apiKeys } from "../db/schema.ts";
import type { Plan } from "../rate-limit/plans.ts";
import type { ApiKey, KeyState } from "./api-key.ts";

type Database = BaseSQLiteDatabase<"async", unknown>;

/** A key as its operator sees it. */
export interface ManagedKey extends ApiKey {
  /** When the keys that rotations have replaced end or ended, in ascending order. */
  readonly formerKeyEnds: readonly Date[];
}

/** Which keys to list: those that fit everything that is named. */
export interface KeyFilter {
  readonly plan?: Plan | undefined;
  readonly state?: KeyState | undefined;
  /** A part of the name, in upper or lower case. */
  readonly name?: string | undefined;
  /** Only active keys that expire until then. */
  readonly expiresUntil?: Date | undefined;
}

/** The keys that fit `filter` at `now`, the oldest first. */
export async function listApiKeys(
  database: Database,
  { plan, state, name, expiresUntil }: KeyFilter,
  now: Date,
): Promise<ManagedKey[]> {
  const keys = await database
    .select(MANAGED_KEY)
    .from(apiKeys)
    .where(
      and(
        plan === undefined ? undefined : eq(apiKeys.plan, plan),
        state === undefined ? undefined : hasState(state, now),
        expiresUntil === undefined
          ? undefined
          : and(hasState("active", now), lte(apiKeys.expiresAt, expiresUntil)),
      ),
    )
    .orderBy(apiKeys.createdAt, apiKeys.id);
  // SQLite knows upper and lower case of ASCII only.
  return name === undefined ? keys : keys.filter((key) => fold(key.name).includes(fold(name)));
}

export async function findApiKey(database: Database, id: string): Promise<ManagedKey | undefined> {
  const [key] = await database.select(MANAGED_KEY).from(apiKeys).where(eq(apiKeys.id, id));
  return key;
}

/** The names are qualified by hand: drizzle leaves the table out where a query has only one. */
const MANAGED_KEY = {
  ...getTableColumns(apiKeys),
  formerKeyEnds:
    sql`(SELECT json_group_array(ends_at) FROM former_key_hashes WHERE former_key_hashes.key_id = api_keys.id)`
      .mapWith(toTimes)
      .as("former_key_ends"),
};

function toTimes(json: string): Date[] {
  const times = JSON.parse(json) as number[];
  return times.sort((one, other) => one - other).map((ms) => new Date(ms));
}

/** `keyState` in SQL. */
function hasState(state: KeyState, now: Date): SQL | undefined {
  const { revokedAt, expiresAt } = apiKeys;
  if (state === "revoked") return lte(revokedAt, now);
  const notRevoked = or(isNull(revokedAt), gt(revokedAt, now));
  if (state === "expired") return and(notRevoked, lte(expiresAt, now));
  return and(notRevoked, or(isNull(expiresAt), gt(expiresAt, now)));
}

function fold(text: string): string {
  return text.normalize("NFC").toLowerCase();
}
