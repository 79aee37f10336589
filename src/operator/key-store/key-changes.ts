import { and, eq, gt, isNull, lte, type Query, sql } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { apiKeys, formerKeyHashes, keyBans, keyChanges } from "../../worker/db/keys-schema.ts";
import { differences, type Operation } from "./audit-trail.ts";
import type { KeyDetails } from "./key-details.ts";

type Database = BaseSQLiteDatabase<"async", unknown>;

/** Statements for one transaction, in this order. */
export type Queries = readonly { toSQL(): Pick<Query, "sql" | "params"> }[];

/** Stores a new key and adds that to the trail. */
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
 * Turns the key `before` into `after`, whose revision has to be the next one: limiters tell the newer
 * of two records by it. Adds what has changed to the trail. Where the record is no longer as it was `before`,
 * the transaction fails with an error that `isOvertaken` knows, and changes nothing.
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
      // NULL, which the column refuses, where another change came first.
      keyId: sql`(SELECT id FROM api_keys WHERE id = ${id} AND revision = ${revision})`,
      details: differences(before, after),
    }),
    database.update(apiKeys).set(columnsOf(after)).where(eq(apiKeys.id, id)),
    ...(after.hash === before.hash ? [] : formerHashQueries(database, before, after, operation.at)),
    ...(after.resets === before.resets ? [] : [liftingQuery(database, id, operation.at)]),
  ];
}

/** Whether a change failed because another one of the same key came first. */
export function isOvertaken(error: Error): boolean {
  return error.message.includes("NOT NULL constraint failed: key_changes.key_id");
}

/** Ends the bans that are in force. */
function liftingQuery(database: Database, keyId: string, now: Date): Queries[number] {
  return database
    .update(keyBans)
    .set({ liftedAt: now })
    .where(and(eq(keyBans.keyId, keyId), gt(keyBans.endsAt, now), isNull(keyBans.liftedAt)));
}

/** Keeps the hash of `before` until it ends, and no earlier one for longer. */
function formerHashQueries(
  database: Database,
  { id, hash }: KeyDetails,
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
    database.insert(formerKeyHashes).values({ hash, keyId: id, endsAt }),
  ];
}

function columnsOf(key: KeyDetails): typeof apiKeys.$inferSelect {
  const { formerKeyEnds: _ends, bannedUntil: _until, ...columns } = key;
  return columns;
}
