import { and, eq, inArray, lte, or, sql } from "drizzle-orm";
import { apiKeys, keyBans, keyUsage } from "../../schema/keys.ts";
import { DATABASE_TIME, type StoreDatabase } from "../database.ts";
import { createApiKey, type CreatedKey } from "./key-settings.ts";

const VERIFICATION = "Verification";
/** The lifetime of the key of `npm run verify`, which takes up to two minutes. */
const VERIFICATION_MS = 10 * 60_000;

export const isOfVerification = and(
  eq(apiKeys.name, VERIFICATION),
  eq(sql`${apiKeys.expiresAt} - ${apiKeys.createdAt}`, VERIFICATION_MS),
);

/** Creates the key of `npm run verify`, without storing it. Lists of keys leave it out. */
export function createVerificationKey(now: Date): CreatedKey {
  const expiresAt = new Date(now.getTime() + VERIFICATION_MS);
  return createApiKey({ name: VERIFICATION, plan: "free", expiresAt }, now);
}

/** Deletes the key `id` of a verification, and those of verifications that were killed. */
export async function deleteVerificationKeys(database: StoreDatabase, id: string): Promise<void> {
  const { orm } = database;
  const hasEnded = or(eq(apiKeys.id, id), lte(apiKeys.expiresAt, DATABASE_TIME));
  const ended = and(isOfVerification, hasEnded);
  const ids = orm.select({ id: apiKeys.id }).from(apiKeys).where(ended);
  await database.transaction([
    orm.delete(keyUsage).where(inArray(keyUsage.keyId, ids)),
    orm.delete(keyBans).where(inArray(keyBans.keyId, ids)),
    orm.delete(apiKeys).where(ended),
  ]);
}
