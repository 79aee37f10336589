import { eq, sql } from "drizzle-orm";
import { apiKeys, type KeyChangeDetails, keyChanges } from "../../schema/keys.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";
import type { Restoration } from "../database/d1-api.ts";
import { differences } from "../key-store/audit-trail.ts";
import type { KeyDetails } from "../key-store/key-details.ts";

/** The key id in the audit record that describes the restoration rather than one key. */
const ALL_KEYS = "*";

/** The differences between the keys before and after a restoration. */
export interface KeyDifferences {
  /** The ids of keys whose revocation the restoration undid. */
  readonly revived: readonly string[];
  /**
   * The ids of keys whose rotation the restoration undid. The secret from that rotation no longer
   * works.
   */
  readonly rotatedBack: readonly string[];
  /** The ids of keys that no longer exist after the restoration. */
  readonly lost: readonly string[];
  /** The ids of keys that exist again, for example because the operator undoes a restoration. */
  readonly back: readonly string[];
  /**
   * Every key that differs after the restoration, lost keys included, with the fields that differ.
   */
  readonly changed: readonly { readonly id: string; readonly details: KeyChangeDetails }[];
}

export function compareKeys(
  former: readonly KeyDetails[],
  restored: readonly KeyDetails[],
): KeyDifferences {
  const restoredById = byId(restored);
  const formerById = byId(former);
  const pairs = former.flatMap((before) => {
    const after = restoredById.get(before.id);
    return after === undefined ? [] : [{ id: before.id, before, after }];
  });
  const lost = former.filter(({ id }) => !restoredById.has(id));
  const back = restored.filter(({ id }) => !formerById.has(id));
  const changed = [
    ...pairs.map(({ id, before, after }) => ({ id, details: differences(before, after) })),
    ...lost.map((key) => ({ id: key.id, details: inReverse(differences(undefined, key)) })),
    ...back.map((key) => ({ id: key.id, details: differences(undefined, key) })),
  ];
  return {
    revived: idsOf(
      pairs.filter(({ before, after }) => before.revokedAt !== null && after.revokedAt === null),
    ),
    rotatedBack: idsOf(pairs.filter(({ before, after }) => before.hash !== after.hash)),
    lost: idsOf(lost),
    back: idsOf(back),
    changed: changed.filter(({ details }) => Object.keys(details).length > 0),
  };
}

/**
 * Changes the restored keys so that their limiters use them, and records the restoration in the
 * audit trail.
 *
 * - A limiter ignores a key whose revision is smaller than the revision that the limiter knows. So
 *   every restored key gets a larger revision.
 * - A limiter resets only if its key's number of resets has grown. If a restoration lowered the
 *   number, the limiter would ignore the next `keys reset`. So each key keeps at least its former
 *   number of resets, if `former` is known.
 *
 * The limiters keep their windows and bans.
 *
 * @param former the keys before the restoration; `null` if they are unknown.
 */
export async function settleRestoredKeys(
  database: StoreDatabase,
  {
    former,
    keys,
    restoration,
    actor,
  }: {
    readonly former: readonly KeyDetails[] | null;
    readonly keys: KeyDifferences | null;
    readonly restoration: Restoration;
    readonly actor: string;
  },
): Promise<void> {
  const { orm } = database;
  const at = new Date();
  const { previousBookmark, bookmark } = restoration;
  const records = [
    { id: ALL_KEYS, details: { bookmark: { from: previousBookmark, to: bookmark } } },
    ...(keys?.changed ?? []),
  ];
  await database.transaction(
    toStatements([
      // A time in milliseconds is larger than any earlier revision, because a change of a key adds
      // only 1 to its revision.
      orm.update(apiKeys).set({ revision: at.getTime() }),
      ...(former ?? [])
        .filter(({ resets }) => resets > 0)
        .map(({ id, resets }) =>
          orm
            .update(apiKeys)
            .set({ resets: sql`max(${apiKeys.resets}, ${resets})` })
            .where(eq(apiKeys.id, id)),
        ),
      ...records.map(({ id, details }) =>
        orm.insert(keyChanges).values({ at, actor, action: "restore", keyId: id, details }),
      ),
    ]),
  );
}

function byId(keys: readonly KeyDetails[]): ReadonlyMap<string, KeyDetails> {
  return new Map(keys.map((key) => [key.id, key]));
}

function idsOf(keys: readonly { readonly id: string }[]): string[] {
  return keys.map(({ id }) => id);
}

function inReverse(details: KeyChangeDetails): KeyChangeDetails {
  return Object.fromEntries(
    Object.entries(details).map(([field, { from, to }]) => [field, { from: to, to: from }]),
  );
}
