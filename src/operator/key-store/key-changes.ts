import { and, eq, lte, type Query, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { apiKeys, formerKeyHashes, keyBans, keyChanges } from "../../schema/keys.ts";
import { differences, type Operation } from "./audit-trail.ts";
import { isInForce, type KeyDetails } from "./key-details.ts";

type Database = BaseSQLiteDatabase<"async", unknown>;

/** Queries for one transaction, in the order in which they must run. */
type Queries = readonly { toSQL(): Pick<Query, "sql" | "params"> }[];

/** Returns the queries that store a new key and record its creation in the audit trail. */
export function creationQueries(database: Database, key: KeyDetails, actor: string): Queries {
  return [
    database.insert(apiKeys).values(columnsOf(key)),
    database.insert(keyChanges).values({
      at: key.createdAt,
      actor,
      action: "create",
      keyId: key.id,
      details: differences(undefined, key),
    }),
  ];
}

/**
 * Returns the queries that replace the key `before` by `after` and record the change in the audit
 * trail. If the stored key is no longer `before`, their transaction changes nothing and fails with
 * an error that `isOvertaken` recognizes.
 *
 * @param after has the next revision. Limiters use the revision to recognize the newer key.
 */
export function changeQueries(
  database: Database,
  before: KeyDetails,
  after: KeyDetails,
  operation: Operation,
): Queries {
  const { id, revision } = before;
  return [
    database.insert(keyChanges).values({
      ...operation,
      // NULL if the stored key has another revision. The column `key_id` is NOT NULL, so the
      // transaction then fails.
      keyId: sql`(SELECT id FROM api_keys WHERE id = ${id} AND revision = ${revision})`,
      details: differences(before, after),
    }),
    database.update(apiKeys).set(columnsOf(after)).where(eq(apiKeys.id, id)),
    ...(after.hash === before.hash ? [] : formerHashQueries(database, before, after, operation.at)),
    ...(after.resets === before.resets ? [] : [liftingQuery(database, id, operation.at)]),
  ];
}

/** Returns whether a change failed because another change of the same key was stored first. */
export function isOvertaken(error: Error): boolean {
  return error.message.includes("NOT NULL constraint failed: key_changes.key_id");
}

/** Returns the query that lifts all bans of a key that are in force. */
function liftingQuery(database: Database, keyId: string, now: Date): Queries[number] {
  return database
    .update(keyBans)
    .set({ liftedAt: now })
    .where(and(eq(keyBans.keyId, keyId), isInForce(now)));
}

/**
 * Returns the queries that store the hash of the replaced secret and the time at which it becomes
 * invalid. The key's earlier secrets become invalid at the same time or earlier. The queries also
 * delete the hashes of secrets that are invalid already.
 */
function formerHashQueries(
  database: Database,
  { id, hash, lastFour }: KeyDetails,
  { formerKeyEnds }: KeyDetails,
  now: Date,
): Queries {
  const endsAt = formerKeyEnds.at(-1);
  if (endsAt === undefined) throw new TypeError("A new hash, but no end of the former one.");
  const ofThisKey = eq(formerKeyHashes.keyId, id);
  return [
    database.delete(formerKeyHashes).where(and(ofThisKey, lte(formerKeyHashes.endsAt, now))),
    database
      .update(formerKeyHashes)
      .set({ endsAt: sql`min(${formerKeyHashes.endsAt}, ${endsAt.getTime()})` })
      .where(ofThisKey),
    database.insert(formerKeyHashes).values({ hash, keyId: id, endsAt, lastFour }),
  ];
}

function columnsOf(key: KeyDetails): typeof apiKeys.$inferSelect {
  const { formerKeyEnds: _ends, bannedUntil: _until, ...columns } = key;
  return columns;
}
