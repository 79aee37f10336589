import { eq, sql } from "drizzle-orm";
import { apiKeys } from "../../worker/db/schema.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";

/** The parts of a key that a restoration should not change unnoticed. */
interface ComparedKey {
  readonly id: string;
  readonly hash: string;
  readonly resets: number;
  readonly revokedAt: Date | null;
}

/** The differences between the keys before and after a restoration. */
export interface KeyDifferences {
  /** Ids of keys whose revocation is undone. */
  readonly revived: readonly string[];
  /** Ids of keys whose rotation is undone, so that the secret since then is unknown. */
  readonly rotatedBack: readonly string[];
  /** Ids of keys that no longer exist. */
  readonly lost: readonly string[];
}

export async function readKeys({ orm }: StoreDatabase): Promise<ComparedKey[]> {
  const { id, hash, resets, revokedAt } = apiKeys;
  return orm.select({ id, hash, resets, revokedAt }).from(apiKeys).orderBy(id);
}

export function compareKeys(
  former: readonly ComparedKey[],
  restored: readonly ComparedKey[],
): KeyDifferences {
  const restoredById = new Map(restored.map((key) => [key.id, key]));
  const idsWhere = (differs: (before: ComparedKey, after: ComparedKey | undefined) => boolean) =>
    former.filter((key) => differs(key, restoredById.get(key.id))).map(({ id }) => id);
  return {
    revived: idsWhere((before, after) => before.revokedAt !== null && after?.revokedAt === null),
    rotatedBack: idsWhere((before, after) => after !== undefined && after.hash !== before.hash),
    lost: idsWhere((_, after) => after === undefined),
  };
}

/**
 * Makes the restored keys newer than what their limiters know. A limiter ignores an older revision
 * and follows a reset only if its number is larger. Windows and bans stay as they are.
 */
export async function outrankLimiters(
  database: StoreDatabase,
  former: readonly ComparedKey[],
  now: Date,
): Promise<void> {
  // A revision counts changes, so it is far smaller than the time in milliseconds.
  const revisions = database.orm.update(apiKeys).set({ revision: now.getTime() });
  const resetCounts = former
    .filter(({ resets }) => resets > 0)
    .map(({ id, resets }) =>
      database.orm
        .update(apiKeys)
        .set({ resets: sql`max(${apiKeys.resets}, ${resets})` })
        .where(eq(apiKeys.id, id)),
    );
  await database.transaction(toStatements([revisions, ...resetCounts]));
}
