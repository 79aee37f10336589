import { eq, sql } from "drizzle-orm";
import { apiKeys, type KeyChangeDetails, keyChanges } from "../../worker/db/keys-schema.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";
import { differences } from "../key-store/audit-trail.ts";
import type { KeyDetails } from "../key-store/key-details.ts";
import type { Restoration } from "./bookmarks.ts";

/** The key of the record that tells of a restoration as a whole. */
const ALL_KEYS = "*";

/** What a restoration changed about the keys, each by its id. */
export interface KeyDifferences {
  /** Keys that had been revoked and no longer are. */
  readonly revived: readonly string[];
  /** Keys that had been rotated and are as they were before, the rotated key unknown. */
  readonly rotatedBack: readonly string[];
  /** Keys that there no longer are. */
  readonly lost: readonly string[];
  /** Keys that there were not, as after an earlier restoration that this one undoes. */
  readonly back: readonly string[];
  /** Every key whose record is another one, with the fields that differ. */
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
 * Makes the restored records newer than those that the keys' limiters have met, which pass over an
 * older one, and follow a reset only where its number is larger. Windows and bans stay as they are.
 * Adds the restoration to the audit trail, which went back too.
 *
 * @param former `null` if the keys could not be read before.
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
      // Revisions count changes: none gets as far as the time in milliseconds.
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
