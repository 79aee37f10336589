import { concatBytes, randomBytes } from "@noble/hashes/utils.js";
import { base32nopad } from "@scure/base";
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
  type SQLWrapper,
} from "drizzle-orm";
import { KEY_STATES, keyState, limitsOf } from "../../rules/keys/api-key.ts";
import type { LocationHint } from "../../rules/keys/location-hints.ts";
import { checksum, hashSecret, RANDOM_BYTES, SECRET_PREFIX } from "../../rules/keys/secret.ts";
import { type Limits, type Plan, PLANS } from "../../rules/limits/plans.ts";
import {
  apiKeys,
  formerKeyHashes,
  keyBans,
  type KeyChangeDetails,
  keyChanges,
  keyUsage,
} from "../../schema/keys.ts";
import { DATABASE_TIME, type Orm, type StoreDatabase } from "../database/database.ts";

/** A key as the operator sees it: with its rotations and its ban. */
export interface KeyDetails extends Readonly<typeof apiKeys.$inferSelect> {
  /** The end of the last replaced secret, also if past; `null` if none was. Older ones end no later. */
  readonly formerKeyEndsAt: Date | null;
  /** The end of the ban in force when the key was read; `null` if there was none. */
  readonly bannedUntil: Date | null;
}

export const KEY_STATES_AND_BAN = [...KEY_STATES, "banned"] as const;
type KeyStateOrBan = (typeof KEY_STATES_AND_BAN)[number];

/** Selects the keys that match every field that is set. */
export interface KeyFilter {
  readonly plan?: Plan;
  readonly state?: KeyStateOrBan;
  /** A part of the name, case-insensitive. */
  readonly name?: string;
  /** The last 1 to 4 characters of a present or former secret, case-insensitive. */
  readonly ending?: string;
}

const VERIFICATION = "Verification";
/** The lifetime of the key of `npm run verify`, which takes up to two minutes. */
const VERIFICATION_MS = 10 * 60_000;
const isOfVerification = and(
  eq(apiKeys.name, VERIFICATION),
  eq(sql`${apiKeys.expiresAt} - ${apiKeys.createdAt}`, VERIFICATION_MS),
);

/** Creates the key of `npm run verify`, without storing it. `listApiKeys` hides it. */
export function createVerificationKey(now: Date): CreatedKey {
  const expiresAt = new Date(now.getTime() + VERIFICATION_MS);
  return createApiKey({ name: VERIFICATION, plan: "free", expiresAt }, now);
}

/** Deletes the key `id` of a verification, and those of verifications that were killed. */
export async function deleteVerificationKeys(database: StoreDatabase, id: string): Promise<void> {
  const { orm } = database;
  const hasEnded = or(eq(apiKeys.id, id), lte(apiKeys.expiresAt, DATABASE_TIME));
  const ended = and(isOfVerification, hasEnded);
  const ids = orm.select({ id: apiKeys.id }).from(apiKeys).where(ended);
  await database.transaction([
    orm.delete(keyUsage).where(inArray(keyUsage.keyId, ids)),
    orm.delete(keyBans).where(inArray(keyBans.keyId, ids)),
    orm.delete(apiKeys).where(ended),
  ]);
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

/** Returns the SQL condition for keys of which a present or former secret matches. */
function someSecret(
  orm: Orm,
  matches: (table: typeof apiKeys | typeof formerKeyHashes) => SQL,
): SQL | undefined {
  const { keyId } = formerKeyHashes;
  const ofFormer = orm.select({ keyId }).from(formerKeyHashes).where(matches(formerKeyHashes));
  return or(matches(apiKeys), inArray(apiKeys.id, ofFormer));
}

/** Returns the condition for bans that are in force at a time. */
const isInForce = (at: Date | typeof DATABASE_TIME) =>
  and(isNull(keyBans.liftedAt), gt(keyBans.endsAt, at));

/** Returns the keys that match a condition, the oldest first. */
async function selectKeys(orm: Orm, where: SQL | undefined): Promise<KeyDetails[]> {
  const formerKeyEndsAt = max(formerKeyHashes.endsAt);
  const bannedUntil = max(keyBans.endsAt);
  return orm
    .select({ ...getTableColumns(apiKeys), formerKeyEndsAt, bannedUntil })
    .from(apiKeys)
    .leftJoin(formerKeyHashes, eq(formerKeyHashes.keyId, apiKeys.id))
    .leftJoin(keyBans, and(eq(keyBans.keyId, apiKeys.id), isInForce(DATABASE_TIME)))
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
function settingsOf(key: KeyDetails) {
  const { name, plan, expiresAt, locationHint, revokedAt, formerKeyEndsAt } = key;
  // The limits of a plan that only a later version knows stay as stored.
  const { perMinute, perDay } = PLANS.includes(plan) ? limitsOf(key) : key;
  const ends = { expiresAt, locationHint, revokedAt, formerKeyEndsAt };
  return { name, plan, perMinute, perDay, ...ends };
}

/** Returns a key as the commands print it with `--json`, without the hash of its secret. */
export function toKeyJson(key: KeyDetails, now: Date) {
  const { id, createdAt, lastFour, bannedUntil } = key;
  const state = keyStateOrBan(key, now);
  // Revocation ends former keys too.
  const formerKeyEndsAt = key.revokedAt === null ? key.formerKeyEndsAt : null;
  return { id, ...settingsOf(key), formerKeyEndsAt, createdAt, lastFour, state, bannedUntil };
}

export interface NewKeySettings {
  readonly name: string;
  readonly plan: Plan;
  /** The key's own limits, on the Enterprise plan only. */
  readonly limits?: Limits | null;
  readonly expiresAt?: Date | null;
  /** The region of the key's Durable Object, which never moves; `null`: near its first use. */
  readonly locationHint?: LocationHint | null;
}

/** The own limits of a key on every other plan. */
export const NO_LIMITS = { perMinute: null, perDay: null };

/** A key's record and, as `key`, its secret, which is not stored (docs/api.md, Authentication). */
export interface CreatedKey {
  readonly key: string;
  readonly record: KeyDetails;
}

/** Matches the error of a change if another change of the same key was stored first. */
export const OVERTAKEN = /NOT NULL constraint failed: key_changes\.key_id/;

/** A change of an API key, as the audit trail (`key_changes`) records it. */
export type Operation = Readonly<Pick<typeof keyChanges.$inferSelect, "action" | "actor" | "at">>;

/** Generates the public id of a key: `key_` and 80 random bits in lower-case base32. */
export function generateKeyId(): string {
  return `key_${base32nopad.encode(randomBytes(10)).toLowerCase()}`;
}

/**
 * Generates a secret, which a client sends as its API key (docs/api.md, Authentication). A secret
 * is the prefix, followed by 160 random bits and a 40-bit checksum in lower-case base32.
 */
export function generateSecret(): string {
  const random = randomBytes(RANDOM_BYTES);
  return SECRET_PREFIX + base32nopad.encode(concatBytes(random, checksum(random))).toLowerCase();
}

function newSecret() {
  const key = generateSecret();
  // The last four characters may be stored: they belong to the checksum, not to the random part.
  return { key, hash: hashSecret(key), lastFour: key.slice(-4) };
}

/** Creates a key and its secret, without storing them. */
export function createApiKey(settings: NewKeySettings, now: Date): CreatedKey {
  const { name, plan, limits, expiresAt = null, locationHint = null } = settings;
  const { key, ...hashed } = newSecret();
  const given = { name, plan, ...(limits ?? NO_LIMITS), expiresAt, locationHint, createdAt: now };
  const unchanged = { revision: 0, resets: 0, revokedAt: null, formerKeyEndsAt: null };
  const record = { id: generateKeyId(), ...hashed, ...given, ...unchanged, bannedUntil: null };
  return { key, record };
}

/** Returns the key with a new secret. Earlier secrets end at `formerKeyEndsAt` at the latest. */
export function rotateApiKey(current: KeyDetails, formerKeyEndsAt: Date): CreatedKey {
  const { key, ...hashed } = newSecret();
  return { key, record: { ...current, ...hashed, formerKeyEndsAt } };
}

/** Returns the key as revoked. A key that is already revoked keeps its time of revocation. */
export function revokeApiKey(current: KeyDetails, now: Date): KeyDetails {
  return { ...current, revokedAt: current.revokedAt ?? now };
}

/** Returns the key with one more reset, so that its limiter forgets the windows and the bans. */
export function resetApiKey(current: KeyDetails): KeyDetails {
  return { ...current, resets: current.resets + 1, bannedUntil: null };
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
  if (after.hash !== hash && endsAt !== null) {
    const ofKey = eq(formerKeyHashes.keyId, keyId);
    const noLater = sql`min(${formerKeyHashes.endsAt}, ${endsAt.getTime()})`;
    statements.push(
      orm.delete(formerKeyHashes).where(and(ofKey, lte(formerKeyHashes.endsAt, at))),
      orm.update(formerKeyHashes).set({ endsAt: noLater }).where(ofKey),
      orm.insert(formerKeyHashes).values({ hash, keyId, endsAt, lastFour }),
    );
  }
  if (after.resets !== resets) {
    const ofKey = and(eq(keyBans.keyId, keyId), isInForce(at));
    statements.push(orm.update(keyBans).set({ liftedAt: at }).where(ofKey));
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
