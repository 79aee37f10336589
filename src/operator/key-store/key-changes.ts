import { and, eq, lte, sql, type SQLWrapper } from "drizzle-orm";
import {
  apiKeys,
  formerKeyHashes,
  keyBans,
  type KeyChangeDetails,
  keyChanges,
} from "../../schema/keys.ts";
import type { Orm } from "../database/database.ts";
import { isInForce, type KeyDetails, toSettingsJson } from "./key-details.ts";

/** A change of an API key, as the audit trail (`key_changes`) records it. */
export type Operation = Readonly<Pick<typeof keyChanges.$inferSelect, "action" | "actor" | "at">>;

/** The fields whose changes the audit trail records. */
const FIELDS = [
  "name",
  "plan",
  "perMinute",
  "perDay",
  "expiresAt",
  "locationHint",
  "revokedAt",
  "formerKeyEndsAt",
] as const;

/** Returns the statements that store a new key and record its creation in the audit trail. */
export function creation(orm: Orm, key: KeyDetails, actor: string): SQLWrapper[] {
  const { id: keyId, createdAt: at } = key;
  const details = differences(undefined, key);
  return [
    orm.insert(apiKeys).values(key),
    orm.insert(keyChanges).values({ at, actor, action: "create", keyId, details }),
  ];
}

/**
 * Returns the statements that change a key and record the change. If the stored key has another
 * revision than `before`, their transaction fails with an error that `isOvertaken` recognizes.
 *
 * @param after has the next revision, by which limiters recognize the newer key.
 */
export function change(
  orm: Orm,
  before: KeyDetails,
  after: KeyDetails,
  operation: Operation,
): SQLWrapper[] {
  const { id, revision } = before;
  const { at } = operation;
  const bansInForce = and(eq(keyBans.keyId, id), isInForce(at));
  // NULL if the stored key has another revision. `key_id` is NOT NULL, so the transaction then fails.
  const unchanged = orm
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.id, id), eq(apiKeys.revision, revision)));
  const details = differences(before, after);
  return [
    orm.insert(keyChanges).values({ ...operation, keyId: sql`${unchanged}`, details }),
    orm.update(apiKeys).set(after).where(eq(apiKeys.id, id)),
    ...(after.hash === before.hash ? [] : formerHashes(orm, before, after, at)),
    ...(after.resets === before.resets
      ? []
      : [orm.update(keyBans).set({ liftedAt: at }).where(bansInForce)]),
  ];
}

/** Returns whether a change failed because another change of the same key was stored first. */
export function isOvertaken(error: Error): boolean {
  return error.message.includes("NOT NULL constraint failed: key_changes.key_id");
}

// Stores the hash and the expiry of the replaced secret. Makes older secrets expire no later than
// this secret. Deletes the hashes of expired secrets.
function formerHashes(
  orm: Orm,
  { id: keyId, hash, lastFour }: KeyDetails,
  { formerKeyEnds }: KeyDetails,
  now: Date,
): SQLWrapper[] {
  const endsAt = formerKeyEnds.at(-1);
  if (endsAt === undefined) throw new TypeError("A new hash, but no end of the former one.");
  const ofKey = eq(formerKeyHashes.keyId, keyId);
  const noLater = sql`min(${formerKeyHashes.endsAt}, ${endsAt.getTime()})`;
  return [
    orm.delete(formerKeyHashes).where(and(ofKey, lte(formerKeyHashes.endsAt, now))),
    orm.update(formerKeyHashes).set({ endsAt: noLater }).where(ofKey),
    orm.insert(formerKeyHashes).values({ hash, keyId, endsAt, lastFour }),
  ];
}

/** Returns the recorded fields where two states of a key differ; for a new key, all set fields. */
function differences(before: KeyDetails | undefined, after: KeyDetails): KeyChangeDetails {
  const former = before && toSettingsJson(before);
  const current = toSettingsJson(after);
  const changes = FIELDS.map((field) => {
    return [field, { from: former?.[field] ?? null, to: current[field] }] as const;
  });
  return Object.fromEntries(changes.filter(([, { from, to }]) => from !== to));
}

/** Formats the details of a change as one line of text. */
export function describeDetails(details: KeyChangeDetails): string {
  const fields = Object.entries(details).map(
    ([field, { from, to }]) => `${field}: ${from === null ? "" : `${from} → `}${to ?? "none"}`,
  );
  return fields.join(", ");
}
