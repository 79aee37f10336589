import { eq, getTableColumns, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { apiKeys, formerKeyHashes } from "../db/schema.ts";

/**
 * The query for the key that has the placeholder `hash`, or had it before a rotation. One statement,
 * so that no rotation comes between; SQLite leaves the second part out where the first finds the key.
 */
export function keyByHash(database: D1Database) {
  const record = getTableColumns(apiKeys);
  // The first part's decoder, which a NULL passes by, reads the rows of both.
  const toTime = (ms: number): Date | null => new Date(ms);
  const orm = drizzle(database);
  const own = orm
    .select({ ...record, hashEndsAt: sql`NULL`.mapWith(toTime) })
    .from(apiKeys)
    .where(eq(apiKeys.hash, sql.placeholder("hash")));
  const former = orm
    .select({ ...record, hashEndsAt: sql`${formerKeyHashes.endsAt}`.mapWith(toTime) })
    .from(formerKeyHashes)
    .innerJoin(apiKeys, eq(apiKeys.id, formerKeyHashes.keyId))
    .where(eq(formerKeyHashes.hash, sql.placeholder("hash")));
  return own.unionAll(former).limit(1).prepare();
}
