import { eq, sql } from "drizzle-orm";
import { apiKeys } from "../../worker/db/schema.ts";
import type { Statement, StoreDatabase } from "../database/database.ts";

/** What a restoration can change about a key that an operator may not want. */
export interface KeySnapshot {
  readonly id: string;
  readonly hash: string;
  readonly resets: number;
  readonly revokedAt: Date | null;
}

export interface KeyDifferences {
  /** Ids of keys that had been revoked and no longer are. */
  readonly revived: readonly string[];
  /** Ids of keys that had been rotated and are as they were before, the rotated key unknown. */
  readonly rotatedBack: readonly string[];
  /** Ids of keys that there no longer are. */
  readonly lost: readonly string[];
}

export async function readKeys({ orm }: StoreDatabase): Promise<KeySnapshot[]> {
  const { id, hash, resets, revokedAt } = apiKeys;
  return orm.select({ id, hash, resets, revokedAt }).from(apiKeys).orderBy(id);
}

export function compareKeys(
  former: readonly KeySnapshot[],
  restored: readonly KeySnapshot[],
): KeyDifferences {
  const restoredById = new Map(restored.map((key) => [key.id, key]));
  const idsWhere = (differs: (before: KeySnapshot, after: KeySnapshot | undefined) => boolean) =>
    former.filter((key) => differs(key, restoredById.get(key.id))).map(({ id }) => id);
  return {
    revived: idsWhere((before, after) => before.revokedAt !== null && after?.revokedAt === null),
    rotatedBack: idsWhere((before, after) => after !== undefined && after.hash !== before.hash),
    lost: idsWhere((_, after) => after === undefined),
  };
}

/**
 * Makes the restored records newer than those that the keys' limiters have met, which pass over an
 * older one, and follow a reset only where its number is larger. Windows and bans stay as they are.
 */
export async function outrank(
  database: StoreDatabase,
  former: readonly KeySnapshot[],
  now: Date,
): Promise<void> {
  // Revisions count changes: none gets as far as the time in milliseconds.
  const updates = [database.orm.update(apiKeys).set({ revision: now.getTime() }).toSQL()];
  for (const { id, resets } of former) {
    if (resets === 0) continue;
    const atLeast = sql`max(${apiKeys.resets}, ${resets})`;
    const update = database.orm.update(apiKeys).set({ resets: atLeast });
    updates.push(update.where(eq(apiKeys.id, id)).toSQL());
  }
  await database.transaction(updates as Statement[]);
}
