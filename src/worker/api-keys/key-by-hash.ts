import { and, eq, getTableColumns, sql } from "drizzle-orm";
import { apiKeys, formerKeyHashes } from "../../schema/keys.ts";
import { db, Statement } from "../db/statement.ts";

/** D1 takes parameters of up to 2 MB; these hashes are a fifth of that. */
const MAX_HASHES = 5_000;

/**
 * Reads current and former hashes in a single statement, so that no rotation can happen in between.
 * With CROSS JOIN, SQLite reads the wanted hashes in its outer loop, whatever its statistics say.
 */
const KEYS_BY_HASH = Statement.of(() => {
  const key = getTableColumns(apiKeys);
  const { hash, endsAt, keyId } = formerKeyHashes;
  const wanted = sql`json_each(${sql.placeholder("hashes")}) AS wanted`;
  const isWanted = (column: typeof hash | typeof key.hash) => sql`${column} = wanted.value`;
  // In a union, the first query decides how drizzle reads a column.
  const never = sql`NULL`.mapWith((ms: number): Date | null => new Date(ms)).as("ends_at");
  const current = db
    .select({ ...key, hashEndsAt: never })
    .from(wanted)
    .crossJoin(apiKeys);
  const former = db
    .select({ ...key, hash, hashEndsAt: sql<Date | null>`${endsAt}`.as("ends_at") })
    .from(wanted)
    .crossJoin(formerKeyHashes)
    .crossJoin(apiKeys);
  return current
    .where(isWanted(key.hash))
    .unionAll(former.where(and(isWanted(hash), eq(key.id, keyId))));
});

/** An API key; `hash` is the hash that was looked up, `hashEndsAt` is when a former hash ends. */
export type FoundKey = typeof KEYS_BY_HASH extends Statement<infer Row> ? Row : never;

/** Reads the keys whose current hash, or a hash from before a rotation, is one of `hashes`. */
export async function keysByHash(
  database: D1Database,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, FoundKey>> {
  const wanted = [...new Set(hashes)];
  const parts = Array.from({ length: Math.ceil(wanted.length / MAX_HASHES) }, (_, n) =>
    wanted.slice(n * MAX_HASHES, (n + 1) * MAX_HASHES),
  );
  const rows = await Promise.all(
    parts.map((part) => KEYS_BY_HASH.all(database, { hashes: JSON.stringify(part) })),
  );
  return new Map(rows.flat().map((key) => [key.hash, key]));
}
