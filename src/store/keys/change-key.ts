import { and, eq, lte, sql, type SQLWrapper } from "drizzle-orm";
import {
  apiKeys,
  formerKeyHashes,
  type KeyChangeDetails,
  keyBans,
  keyChanges,
} from "../../schema/keys.ts";
import { databaseTime, type Orm, type StoreDatabase } from "../database.ts";
import { Refusal } from "../refusal.ts";
import { endsLater, findApiKey, requireApiKey, settingsOf } from "./find-keys.ts";
import type { KeyAtTime, KeyDetails } from "./key-settings.ts";

/** Matches the error of a change if another change of the same key was stored first. */
const OVERTAKEN = /NOT NULL constraint failed: key_changes\.key_id/;

const MAX_ATTEMPTS = 20;

/** The longest pause between two attempts, in milliseconds. The first ones are shorter. */
const LONGEST_PAUSE_MS = 4_000;

/** A change of an API key, as the audit trail (`key_changes`) records it. */
export type Operation = Readonly<Pick<typeof keyChanges.$inferSelect, "action" | "actor" | "at">>;

/** Returns the changed key. `now` is the database's time. */
export type Decide = (current: KeyDetails, now: Date) => KeyDetails;

/** Thrown if a change was perhaps stored, and perhaps not. */
export class UnknownOutcomeError extends Error {
  override readonly name = "UnknownOutcomeError";
}

/**
 * Stores new keys and records them in the audit trail.
 *
 * @throws {UnknownOutcomeError} if the database failed and the keys cannot be looked up.
 */
export async function addKeys(
  database: StoreDatabase,
  keys: readonly KeyDetails[],
  actor: string,
): Promise<void> {
  const statements = keys.flatMap((key) => {
    return change(database.orm, undefined, key, { action: "create", actor, at: key.createdAt });
  });
  await store(database, statements, keys);
}

/**
 * Changes a key and records the change in the audit trail. Writes nothing if nothing changes.
 *
 * @param decide runs again if another change of the key was stored first (`unlessOvertaken`).
 * @returns the key, and the time of the database before the change.
 * @throws every error of `decide`.
 * @throws {Refusal} `key_not_found` or `key_busy`.
 * @throws {UnknownOutcomeError} if the database failed and the key cannot be looked up.
 */
export async function changeKey(
  database: StoreDatabase,
  id: string,
  operation: Omit<Operation, "at">,
  decide: Decide,
): Promise<KeyAtTime> {
  return unlessOvertaken(async () => {
    const at = await databaseTime(database.orm);
    const before = await requireApiKey(database.orm, id);
    const decided = decide(before, at);
    if (isSame(before, decided)) return [before, at];
    const after = { ...decided, revision: before.revision + 1 };
    await store(database, change(database.orm, before, after, { ...operation, at }), [after]);
    return [after, at];
  });
}

/**
 * Makes the transaction of a `change`, and makes it anew if another change of the same key was stored
 * first. Pauses at random, because simultaneous changes would otherwise overtake each other again.
 *
 * @param pause waits for some milliseconds.
 * @throws {Refusal} `key_busy` after the last attempt.
 */
export async function unlessOvertaken<T>(
  attempt: () => Promise<T>,
  pause = (ms: number) => new Promise((resolve) => void setTimeout(resolve, ms)),
): Promise<T> {
  for (let longestMs = 10, left = MAX_ATTEMPTS; left > 0; left -= 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!OVERTAKEN.test((error as Error).message)) throw error;
    }
    await pause(Math.random() * (longestMs = Math.min(LONGEST_PAUSE_MS, 2 * longestMs)));
  }
  throw new Refusal("key_busy", "other changes of this key came first again and again: try again");
}

// After an error, looks the keys up: perhaps the connection failed after the transaction. Does not
// throw if the keys are stored, because the caller must show their secrets.
async function store(
  database: StoreDatabase,
  statements: readonly SQLWrapper[],
  keys: readonly KeyDetails[],
): Promise<void> {
  try {
    await database.transaction(statements);
  } catch (error) {
    // Otherwise a look could take the same change by another caller for this one.
    if (OVERTAKEN.test((error as Error).message)) throw error;
    const looking = keys.map((key) => findApiKey(database.orm, key.id));
    const stored = await Promise.all(looking).catch(() => null);
    if (stored === null) throw new UnknownOutcomeError((error as Error).message, { cause: error });
    if (!keys.every((key, index) => isSame(key, stored[index]))) throw error;
  }
}

/** Compares two states of a key, except for the ban: requests may ban a key meanwhile. */
export function isSame(one: KeyDetails, other: KeyDetails | undefined): boolean {
  const names = Object.keys(one) as (keyof KeyDetails)[];
  return names.every(
    (name) => name === "bannedUntil" || one[name]?.valueOf() === other?.[name]?.valueOf(),
  );
}

/**
 * Returns the statements that change a key, or store a new one, and record the change. If the stored
 * key has another revision than `before`, their transaction fails with an error that matches
 * `OVERTAKEN`.
 *
 * @param before `undefined` for a new key.
 * @param after has the next revision, by which limiters recognize the newer key.
 */
export function change(
  orm: Orm,
  before: KeyDetails | undefined,
  after: KeyDetails,
  operation: Operation,
): SQLWrapper[] {
  const { id: keyId, formerKeyEndsAt: endsAt } = after;
  const record = { ...operation, details: differences(before, after) };
  if (before === undefined) {
    return [orm.insert(apiKeys).values(after), orm.insert(keyChanges).values({ ...record, keyId })];
  }
  const { hash, lastFour, revision, resets } = before;
  // NULL if the stored key has another revision. `key_id` is NOT NULL, so the transaction then fails.
  const isUnchanged = and(eq(apiKeys.id, keyId), eq(apiKeys.revision, revision));
  const unchanged = orm.select({ id: apiKeys.id }).from(apiKeys).where(isUnchanged);
  const statements: SQLWrapper[] = [
    orm.insert(keyChanges).values({ ...record, keyId: sql`${unchanged}` }),
    orm.update(apiKeys).set(after).where(eq(apiKeys.id, keyId)),
  ];
  const { at } = operation;
  const ofKey = eq(formerKeyHashes.keyId, keyId);
  // A former secret that ends at once is not kept, because a clock that is set back would revive it.
  if (after.hash !== hash && endsAt === null) {
    statements.push(orm.delete(formerKeyHashes).where(ofKey));
  } else if (after.hash !== hash && endsAt !== null) {
    const noLater = sql`min(${formerKeyHashes.endsAt}, ${endsAt.getTime()})`;
    statements.push(
      orm.delete(formerKeyHashes).where(and(ofKey, lte(formerKeyHashes.endsAt, at))),
      orm.update(formerKeyHashes).set({ endsAt: noLater }).where(ofKey),
      orm.insert(formerKeyHashes).values({ hash, keyId, endsAt, lastFour }),
    );
  }
  if (after.resets !== resets) {
    const banned = and(eq(keyBans.keyId, keyId), endsLater(at));
    statements.push(orm.update(keyBans).set({ liftedAt: at }).where(banned));
  }
  return statements;
}

/** Returns the settings where two states of a key differ; for a new key, all that are set. */
function differences(before: KeyDetails | undefined, after: KeyDetails): KeyChangeDetails {
  // As JSON, times are texts.
  const toJson = (key: KeyDetails | undefined): Record<string, string | number | null> =>
    JSON.parse(JSON.stringify(key ? settingsOf(key) : {}));
  const former = toJson(before);
  const changes = Object.entries(toJson(after)).map(([field, to]) => {
    return [field, { from: former[field] ?? null, to }] as const;
  });
  return Object.fromEntries(changes.filter(([, { from, to }]) => from !== to));
}
