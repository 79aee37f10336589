import type { FoundKey } from "./api-key.ts";

type Milliseconds<T> = T extends Date ? number : T;

/** A key's row as D1 returns it, with Unix times in milliseconds instead of `Date`s. */
type Row = { readonly [Name in keyof FoundKey]: Milliseconds<FoundKey[Name]> } & {
  readonly wantedHash: string;
};

const KEY_COLUMNS = `own.id, own.hash, own.name, own.plan, own.per_minute AS perMinute, own.per_day AS perDay,
  own.created_at AS createdAt, own.expires_at AS expiresAt, own.revoked_at AS revokedAt,
  own.revision, own.resets, own.location_hint AS locationHint`;

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
  const { results } = await database.prepare(KEYS_BY_HASH).bind(wanted).all<Row>();
  return new Map(results.map(({ wantedHash, ...row }) => [wantedHash, toFoundKey(row)]));
}

function toFoundKey(row: Omit<Row, "wantedHash">): FoundKey {
  return {
    ...row,
    createdAt: new Date(row.createdAt),
    expiresAt: toDate(row.expiresAt),
    revokedAt: toDate(row.revokedAt),
    hashEndsAt: toDate(row.hashEndsAt),
  };
}

function toDate(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms);
}
