import { and, eq, lte, type Query, sql } from "drizzle-orm";
import {
  apiKeys,
  formerKeyHashes,
  keyBans,
  type KeyChangeDetails,
  keyChanges,
} from "../../schema/keys.ts";
import { formatNumber, formatTime } from "../terminal-text.ts";
import { type Database, isInForce, type KeyDetails, toSettingsJson } from "./key-details.ts";

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** The kind of a change, who makes it, and when. */
export type Operation = Pick<typeof keyChanges.$inferSelect, "action" | "actor" | "at">;

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

/** Queries for one transaction, in the order in which they must run. */
type Queries = readonly { toSQL(): Pick<Query, "sql" | "params"> }[];

/** Returns the queries that store a new key and record its creation in the audit trail. */
export function creationQueries(database: Database, key: KeyDetails, actor: string): Queries {
  return [
    // Drizzle ignores the fields that are not columns.
    database.insert(apiKeys).values(key),
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
 * Returns the queries that replace the key `before` by `after` and record the change. If the stored
 * key is no longer `before`, their transaction fails with an error that `isOvertaken` recognizes.
 *
 * @param after has the next revision, by which limiters recognize the newer key.
 */
export function changeQueries(
  database: Database,
  before: KeyDetails,
  after: KeyDetails,
  operation: Operation,
): Queries {
  const { id, revision } = before;
  const { at } = operation;
  const ofKey = and(eq(keyBans.keyId, id), isInForce(at));
  const lifting = database.update(keyBans).set({ liftedAt: at }).where(ofKey);
  return [
    database.insert(keyChanges).values({
      ...operation,
      // NULL if the stored key has another revision. The column `key_id` is NOT NULL, so the
      // transaction then fails.
      keyId: sql`(SELECT id FROM api_keys WHERE id = ${id} AND revision = ${revision})`,
      details: differences(before, after),
    }),
    database.update(apiKeys).set(after).where(eq(apiKeys.id, id)),
    ...(after.hash === before.hash ? [] : formerHashQueries(database, before, after, at)),
    ...(after.resets === before.resets ? [] : [lifting]),
  ];
}

/** Returns whether a change failed because another change of the same key was stored first. */
export function isOvertaken(error: Error): boolean {
  return error.message.includes("NOT NULL constraint failed: key_changes.key_id");
}

// Keeps the hash of the replaced secret until its end. Earlier secrets end no later. Deletes the
// hashes that have ended.
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

/** Returns the fields in which a key differs from `before`; of a new key, all that are set. */
export function differences(before: KeyDetails | undefined, after: KeyDetails): KeyChangeDetails {
  const former = before && toSettingsJson(before);
  const current = toSettingsJson(after);
  const changes = FIELDS.map((field) => {
    return [field, { from: former?.[field] ?? null, to: current[field] }] as const;
  });
  return Object.fromEntries(changes.filter(([, { from, to }]) => from !== to));
}

/** Formats the details of a change as one line of text. */
export function describeDetails(details: KeyChangeDetails): string {
  const fields = Object.entries(details).map(([field, { from, to }]) =>
    from === null ? `${field}: ${describe(to)}` : `${field}: ${describe(from)} → ${describe(to)}`,
  );
  return fields.join(", ");
}

function describe(value: string | number | null): string {
  if (typeof value === "number") return formatNumber(value);
  if (value === null) return "none";
  return ISO_TIME.test(value) ? formatTime(new Date(value)) : value;
}
