import {
  type FoundKey,
  KEY_COLUMNS,
  type Stored,
  toApiKey,
  toDate,
} from "../../rules/keys/api-key.ts";

/**
 * Reads current and former hashes in a single statement, so that no rotation can happen in between.
 * With CROSS JOIN, SQLite reads the wanted hashes in its outer loop, whatever its statistics say.
 */
const KEYS_BY_HASH = `
  SELECT wanted.value AS wantedHash, NULL AS hashEndsAt, ${KEY_COLUMNS}
  FROM json_each(?1) AS wanted
  CROSS JOIN api_keys AS own ON own.hash = wanted.value
  UNION ALL
  SELECT wanted.value, former.ends_at, ${KEY_COLUMNS}
  FROM json_each(?1) AS wanted
  CROSS JOIN former_key_hashes AS former ON former.hash = wanted.value
  CROSS JOIN api_keys AS own ON own.id = former.key_id`;

/** Reads the keys whose current hash, or a hash from before a rotation, is one of `hashes`. */
export async function keysByHash(
  database: D1Database,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, FoundKey>> {
  const wanted = JSON.stringify([...new Set(hashes)]);
  const { results } = await database
    .prepare(KEYS_BY_HASH)
    .bind(wanted)
    .all<Stored<FoundKey> & { wantedHash: string }>();
  return new Map(
    results.map(({ wantedHash, ...row }) => {
      return [wantedHash, { ...toApiKey(row), hashEndsAt: toDate(row.hashEndsAt) }];
    }),
  );
}
