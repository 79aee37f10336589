import { eq, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { apiKeys } from "../db/schema.ts";
import type { Limits, Plan } from "../rate-limit/plans.ts";
import type { ApiKey } from "./api-key.ts";
import { generateKey, generateKeyId, hashKey } from "./key.ts";

type Database = BaseSQLiteDatabase<"async", unknown>;

/** What the operator settles about a key. `limits`: of its own where the plan is Enterprise. */
export interface KeySettings {
  readonly name: string;
  readonly plan: Plan;
  readonly limits: Limits | null;
  readonly expiresAt: Date | null;
}

/** A new key with its record. Nothing else ever holds the key itself (contract, section 3). */
export interface CreatedKey {
  readonly key: string;
  readonly record: ApiKey;
}

/** Makes a key and its record, for `insertApiKeys` to store. */
export function createApiKey(settings: KeySettings, now: Date): CreatedKey {
  const { name, plan, limits, expiresAt } = settings;
  const key = generateKey();
  const record = {
    id: generateKeyId(),
    hash: hashKey(key),
    name,
    plan,
    perMinute: limits?.perMinute ?? null,
    perDay: limits?.perDay ?? null,
    createdAt: now,
    expiresAt,
    revokedAt: null,
    revision: 0,
    resets: 0,
  };
  return { key, record };
}

export async function insertApiKeys(database: Database, records: readonly ApiKey[]): Promise<void> {
  await database.insert(apiKeys).values([...records]);
}

/** All keys, whatever their state, the oldest first. */
export async function listApiKeys(database: Database): Promise<ApiKey[]> {
  return database.select().from(apiKeys).orderBy(apiKeys.createdAt, apiKeys.id);
}

export async function findApiKey(database: Database, id: string): Promise<ApiKey | undefined> {
  const [record] = await database.select().from(apiKeys).where(eq(apiKeys.id, id));
  return record;
}

/**
 * Changes a key's settings; those left out stay.
 *
 * @returns the changed record, or `undefined` where no key has this id.
 */
export async function updateApiKey(
  database: Database,
  id: string,
  { limits, ...settings }: Partial<KeySettings>,
): Promise<ApiKey | undefined> {
  const ownLimits =
    limits === undefined
      ? {}
      : { perMinute: limits?.perMinute ?? null, perDay: limits?.perDay ?? null };
  return change(database, id, { ...settings, ...ownLimits });
}

/**
 * Revokes a key for good. A key that is revoked already keeps its first time of revocation.
 *
 * @returns the changed record, or `undefined` where no key has this id.
 */
export async function revokeApiKey(
  database: Database,
  id: string,
  now: Date,
): Promise<ApiKey | undefined> {
  return change(database, id, {
    revokedAt: sql`coalesce(${apiKeys.revokedAt}, ${now.getTime()})`,
  });
}

/**
 * Has the key's limiter empty both windows and lift a ban when it next meets the record.
 *
 * @returns the changed record, or `undefined` where no key has this id.
 */
export async function resetApiKey(database: Database, id: string): Promise<ApiKey | undefined> {
  return change(database, id, { resets: sql`${apiKeys.resets} + 1` });
}

/** Every change raises the revision, by which limiters tell the newer of two records. */
async function change(
  database: Database,
  id: string,
  changes: Parameters<ReturnType<typeof database.update<typeof apiKeys>>["set"]>[0],
): Promise<ApiKey | undefined> {
  const [record] = await database
    .update(apiKeys)
    .set({ ...changes, revision: sql`${apiKeys.revision} + 1` })
    .where(eq(apiKeys.id, id))
    .returning();
  return record;
}
