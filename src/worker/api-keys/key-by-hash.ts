import { and, eq, getTableColumns, sql } from "drizzle-orm";
import { apiKeys, formerKeyHashes } from "../../schema/keys.ts";
import { db, Statement } from "../db/statement.ts";

/** An API key, as it was found by a hash: without its last four characters. */
export type ApiKey = Readonly<Omit<typeof apiKeys.$inferSelect, "lastFour">>;

export interface FoundKey extends ApiKey {
  /** When the hash that was looked up stops working; `null` for the key's current hash. */
  readonly hashEndsAt: Date | null;
}

/**
 * Reads current and former hashes in a single statement, so that no rotation can happen in between.
 * With CROSS JOIN, SQLite reads the wanted hashes in its outer loop, whatever its statistics say.
 */
const KEYS_BY_HASH = Statement.of(() => {
  const { lastFour: _, ...key } = getTableColumns(apiKeys);
  const wanted = db
    .$with("wanted", { hash: sql<string>`wanted_hash`.as("wanted_hash") })
    .as(sql`SELECT value AS wanted_hash FROM json_each(${sql.placeholder("hashes")})`);
  const wantedHash = wanted.hash;
  // In a union, the first query decides how drizzle reads a column.
  const noEnd = sql`NULL`.mapWith((ms: number): Date | null => new Date(ms));
  return db
    .with(wanted)
    .select({ wantedHash, hashEndsAt: noEnd.as("hash_ends_at"), ...key })
    .from(wanted)
    .crossJoin(apiKeys)
    .where(eq(apiKeys.hash, wantedHash))
    .unionAll(
      db
        .select({
          wantedHash,
          hashEndsAt: sql<Date | null>`${formerKeyHashes.endsAt}`.as("hash_ends_at"),
          ...key,
        })
        .from(wanted)
        .crossJoin(formerKeyHashes)
        .crossJoin(apiKeys)
        .where(and(eq(formerKeyHashes.hash, wantedHash), eq(apiKeys.id, formerKeyHashes.keyId))),
    );
});

/** Reads the keys whose current hash, or a hash from before a rotation, is one of `hashes`. */
export async function keysByHash(
  database: D1Database,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, FoundKey>> {
  const rows = await KEYS_BY_HASH.all(database, { hashes: JSON.stringify([...new Set(hashes)]) });
  return new Map(rows.map(({ wantedHash, ...key }) => [wantedHash, key]));
}
