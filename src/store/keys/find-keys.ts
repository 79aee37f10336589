import {
  and,
  eq,
  getTableColumns,
  gt,
  inArray,
  isNull,
  like,
  lte,
  max,
  or,
  type SQL,
  sql,
} from "drizzle-orm";
import { keyState, type KeyStateOrBan, limitsOf } from "../../rules/keys/api-key.ts";
import { type Plan, PLANS } from "../../rules/limits/plans.ts";
import { apiKeys, formerKeyHashes, keyBans } from "../../schema/keys.ts";
import { DATABASE_TIME, type Orm } from "../database.ts";
import { Refusal } from "../refusal.ts";
import type { KeyDetails } from "./key-settings.ts";
import { isOfVerification } from "./verification-key.ts";

/** Selects the keys that match every field that is set. */
export interface KeyFilter {
  readonly plan?: Plan;
  readonly state?: KeyStateOrBan;
  /** A part of the name, case-insensitive. */
  readonly name?: string;
  /** The last 1 to 4 characters of a present or former secret, case-insensitive. */
  readonly ending?: string;
}

/**
 * Returns the keys that match a filter at the time `now`, the oldest first. Leaves out the keys of
 * verifications, unless the filter has a name.
 */
export async function listApiKeys(
  orm: Orm,
  { plan, state, name, ending }: KeyFilter,
  now: Date,
): Promise<KeyDetails[]> {
  const isListed = name === undefined ? sql`${isOfVerification} IS NOT TRUE` : undefined;
  const endsSo = someSecret(orm, ({ lastFour }) => like(lastFour, `%${ending}`));
  const fold = (text: string) => text.normalize("NFC").toLowerCase();
  // In JavaScript, because SQLite ignores the case of ASCII letters only.
  return (await selectKeys(orm, and(isListed, ending === undefined ? undefined : endsSo))).filter(
    (key) =>
      (plan === undefined || key.plan === plan) &&
      (state === undefined || keyStateOrBan(key, now) === state) &&
      fold(key.name).includes(fold(name ?? "")),
  );
}

/** Returns keys in ascending id, after an id, for a reader that goes on page by page. */
export async function pageOfApiKeys(orm: Orm, after: string, limit: number): Promise<KeyDetails[]> {
  const ids = orm
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(gt(apiKeys.id, after), sql`${isOfVerification} IS NOT TRUE`))
    .orderBy(apiKeys.id)
    .limit(limit);
  const keys = await selectKeys(orm, inArray(apiKeys.id, ids));
  return keys.toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

/** Finds a key by its id, or by the hash of a present or former secret. */
export async function findApiKey(
  orm: Orm,
  by: string | { readonly hash: string },
): Promise<KeyDetails | undefined> {
  const isFound =
    typeof by === "string"
      ? eq(apiKeys.id, by)
      : someSecret(orm, (table) => eq(table.hash, by.hash));
  return (await selectKeys(orm, isFound))[0];
}

/**
 * Finds a key by its id.
 *
 * @throws {Refusal} `key_not_found`.
 */
export async function requireApiKey(orm: Orm, id: string): Promise<KeyDetails> {
  const key = await findApiKey(orm, id);
  if (key !== undefined) return key;
  throw new Refusal("key_not_found", "no key has this id");
}

/** Returns the SQL condition for keys of which a present or former secret matches. */
function someSecret(
  orm: Orm,
  matches: (table: typeof apiKeys | typeof formerKeyHashes) => SQL,
): SQL | undefined {
  const { keyId } = formerKeyHashes;
  const ofFormer = orm.select({ keyId }).from(formerKeyHashes).where(matches(formerKeyHashes));
  return or(matches(apiKeys), inArray(apiKeys.id, ofFormer));
}

/** Returns the condition for bans that have not ended at a time. */
export const endsLater = (at: Date | typeof DATABASE_TIME) =>
  and(isNull(keyBans.liftedAt), gt(keyBans.endsAt, at));

/** Returns the keys that match a condition, the oldest first. */
async function selectKeys(orm: Orm, where: SQL | undefined): Promise<KeyDetails[]> {
  const formerKeyEndsAt = max(formerKeyHashes.endsAt);
  const bannedUntil = max(keyBans.endsAt);
  // A limiter whose clock was ahead has written a later ban, which its next report corrects.
  const isInForce = and(endsLater(DATABASE_TIME), lte(keyBans.beganAt, DATABASE_TIME));
  return orm
    .select({ ...getTableColumns(apiKeys), formerKeyEndsAt, bannedUntil })
    .from(apiKeys)
    .leftJoin(formerKeyHashes, eq(formerKeyHashes.keyId, apiKeys.id))
    .leftJoin(keyBans, and(eq(keyBans.keyId, apiKeys.id), isInForce))
    .where(where)
    .groupBy(apiKeys.id)
    .orderBy(apiKeys.createdAt, apiKeys.id);
}

/** Returns the state of a key. An expired or revoked key is never `banned`. */
function keyStateOrBan(key: KeyDetails, now: Date): KeyStateOrBan {
  const state = keyState(key, now.getTime());
  return state === "active" && key.bannedUntil !== null ? "banned" : state;
}

/** Returns the settings of a key, with the limits that apply: the key's own or its plan's. */
export function settingsOf(key: KeyDetails) {
  const { name, plan, expiresAt, locationHint, revokedAt, formerKeyEndsAt } = key;
  // The limits of a plan that only a later version knows stay as stored.
  const { perMinute, perDay } = PLANS.includes(plan) ? limitsOf(key) : key;
  const ends = { expiresAt, locationHint, revokedAt, formerKeyEndsAt };
  return { name, plan, perMinute, perDay, ...ends };
}

/** Returns a key as it is shown, without the hash of its secret. */
export function describeKey(key: KeyDetails, now: Date) {
  const { id, createdAt, lastFour, bannedUntil } = key;
  const state = keyStateOrBan(key, now);
  // Revocation ends former keys too.
  const formerKeyEndsAt = key.revokedAt === null ? key.formerKeyEndsAt : null;
  return { id, ...settingsOf(key), formerKeyEndsAt, createdAt, lastFour, state, bannedUntil };
}
