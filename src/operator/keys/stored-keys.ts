import { and, eq, getTableColumns, inArray, isNull, max, or, type SQL, sql } from "drizzle-orm";
import { KEY_STATES, keyState, limitsOf } from "../../rules/keys/api-key.ts";
import { type Plan, PLANS } from "../../rules/limits/plans.ts";
import { apiKeys, formerKeyHashes, keyBans, keyUsage } from "../../schema/keys.ts";
import { databaseTime, type Orm, type StoreDatabase } from "../database/database.ts";

/** A key as the operator sees it: with its rotations and its ban. */
export interface KeyDetails extends Readonly<typeof apiKeys.$inferSelect> {
  /** The times at which former secrets become or became invalid, in ascending order. */
  readonly formerKeyEnds: readonly Date[];
  /** The end of the last ban that was not lifted, even if past; `null` if there is none. */
  readonly bannedUntil: Date | null;
}

export const KEY_STATES_AND_BAN = [...KEY_STATES, "banned"] as const;
type KeyStateOrBan = (typeof KEY_STATES_AND_BAN)[number];

/** Selects the keys that match every field that is set. */
export interface KeyFilter {
  readonly plan?: Plan | undefined;
  readonly state?: KeyStateOrBan | undefined;
  /** A part of the name, case-insensitive. */
  readonly name?: string | undefined;
  /** The last 1 to 4 characters of a present or former secret. */
  readonly ending?: string | undefined;
}

/** A table with a `hash` and `lastFour` of secrets. */
type SecretTable = typeof apiKeys | typeof formerKeyHashes;

const VERIFICATION = "Verification";
/** The lifetime of the key of `npm run verify`, which takes up to two minutes. */
const VERIFICATION_MS = 10 * 60_000;

/** The settings of the key that `npm run verify` creates. `listApiKeys` hides it. */
export function verificationSettings(now: Date) {
  const expiresAt = new Date(now.getTime() + VERIFICATION_MS);
  return { name: VERIFICATION, plan: "free", limits: null, expiresAt } as const;
}

function isVerificationKey({ name, createdAt, expiresAt }: KeyDetails): boolean {
  return name === VERIFICATION && expiresAt?.getTime() === createdAt.getTime() + VERIFICATION_MS;
}

/** Deletes the key `id` of a verification, and those of verifications that were killed. */
export async function deleteVerificationKeys(database: StoreDatabase, id: string): Promise<void> {
  const { orm } = database;
  const now = await databaseTime(orm);
  const ended = (await selectKeys(orm, eq(apiKeys.name, VERIFICATION)))
    .filter((key) => isVerificationKey(key))
    .filter((key) => key.id === id || keyState(key, now.getTime()) !== "active")
    .map((key) => key.id);
  const ids = sql`(SELECT value FROM json_each(${JSON.stringify(ended)}))`;
  await database.transaction([
    orm.delete(apiKeys).where(inArray(apiKeys.id, ids)),
    orm.delete(keyUsage).where(inArray(keyUsage.keyId, ids)),
    orm.delete(keyBans).where(inArray(keyBans.keyId, ids)),
  ]);
}

/**
 * Returns the keys that match a filter at the time `now`, the oldest first. Leaves out the keys of
 * verifications, unless the filter has a name.
 */
export async function listApiKeys(
  database: Orm,
  { plan, state, name, ending }: KeyFilter,
  now: Date,
): Promise<KeyDetails[]> {
  // Filters in JavaScript, because `keyStateOrBan` defines the states, and because SQLite ignores
  // the case of ASCII letters only.
  const endsSo = ({ lastFour }: SecretTable) =>
    sql`substr(${lastFour}, ${-(ending?.length ?? 0)}) = ${ending}`;
  const keys = await selectKeys(database, ending && ofSecret(database, endsSo));
  const fold = (text: string) => text.normalize("NFC").toLowerCase();
  return keys.filter(
    (key) =>
      (plan === undefined || key.plan === plan) &&
      (state === undefined || keyStateOrBan(key, now) === state) &&
      (name === undefined ? !isVerificationKey(key) : fold(key.name).includes(fold(name))),
  );
}

/** Finds the key with a present or former secret of this hash. */
export async function findApiKeyByHash(
  database: Orm,
  hash: string,
): Promise<KeyDetails | undefined> {
  const isHash = (table: SecretTable) => eq(table.hash, hash);
  return (await selectKeys(database, ofSecret(database, isHash)))[0];
}

/** Returns the SQL condition for keys with a present or former secret that matches. */
function ofSecret(database: Orm, matches: (table: SecretTable) => SQL): SQL | undefined {
  const { keyId } = formerKeyHashes;
  const former = database.select({ keyId }).from(formerKeyHashes).where(matches(formerKeyHashes));
  return or(matches(apiKeys), inArray(apiKeys.id, former));
}

export async function findApiKey(database: Orm, id: string): Promise<KeyDetails | undefined> {
  return (await selectKeys(database, eq(apiKeys.id, id)))[0];
}

/** Returns the keys that match a condition, or all keys, the oldest first. */
async function selectKeys(database: Orm, where?: SQL | ""): Promise<KeyDetails[]> {
  const ends = database
    .select({ ends: sql`json_group_array(${formerKeyHashes.endsAt})` })
    .from(formerKeyHashes)
    .where(eq(formerKeyHashes.keyId, apiKeys.id));
  const lastBan = database
    .select({ endsAt: max(keyBans.endsAt) })
    .from(keyBans)
    .where(and(eq(keyBans.keyId, apiKeys.id), isNull(keyBans.liftedAt)));
  const toTime = (ms: number): Date | null => new Date(ms);
  const toTimes = (json: string): Date[] =>
    (JSON.parse(json) as number[]).toSorted((one, other) => one - other).map((ms) => new Date(ms));
  return database
    .select({
      ...getTableColumns(apiKeys),
      formerKeyEnds: sql`${ends}`.mapWith(toTimes).as("former_key_ends"),
      bannedUntil: sql`${lastBan}`.mapWith(toTime).as("banned_until"),
    })
    .from(apiKeys)
    .where(where || undefined)
    .orderBy(apiKeys.createdAt, apiKeys.id);
}

/** Returns the state of a key. An expired or revoked key is never `banned`. */
export function keyStateOrBan(key: KeyDetails, now: Date): KeyStateOrBan {
  const state = keyState(key, now.getTime());
  return state === "active" && banEnd(key, now) !== null ? "banned" : state;
}

/** Returns the end of the ban in force; `null` if there is none. */
export function banEnd({ bannedUntil }: KeyDetails, now: Date): Date | null {
  return bannedUntil !== null && bannedUntil > now ? bannedUntil : null;
}

/**
 * Returns the limits that apply to a key. Those of a plan that only a later version knows are
 * `null`, unless the key has limits of its own.
 */
export function knownLimitsOf(key: KeyDetails) {
  const { plan, perMinute, perDay } = key;
  return PLANS.includes(plan) ? limitsOf(key) : { perMinute, perDay };
}

/** Returns the settings of a key, with the limits that apply: the key's own or its plan's. */
export function settingsOf(key: KeyDetails) {
  const { name, plan, expiresAt, locationHint, revokedAt, formerKeyEnds } = key;
  /** The time at which the last replaced secret becomes or became invalid; `null` if none. */
  const formerKeyEndsAt = formerKeyEnds.at(-1) ?? null;
  return { name, plan, ...knownLimitsOf(key), expiresAt, locationHint, revokedAt, formerKeyEndsAt };
}

/** Returns a key as the commands print it with `--json`, without the hash of its secret. */
export function toKeyJson(key: KeyDetails, now: Date) {
  const { id, createdAt, lastFour } = key;
  const state = keyStateOrBan(key, now);
  return { id, ...settingsOf(key), createdAt, lastFour, state, bannedUntil: banEnd(key, now) };
}
