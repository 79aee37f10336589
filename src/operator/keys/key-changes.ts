import { concatBytes, randomBytes } from "@noble/hashes/utils.js";
import { base32nopad } from "@scure/base";
import { and, eq, gt, isNull, lte, sql, type SQLWrapper } from "drizzle-orm";
import type { LocationHint } from "../../rules/keys/location-hints.ts";
import { checksum, hashSecret, RANDOM_BYTES, SECRET_PREFIX } from "../../rules/keys/secret.ts";
import type { Limits, Plan } from "../../rules/limits/plans.ts";
import {
  apiKeys,
  formerKeyHashes,
  keyBans,
  type KeyChangeDetails,
  keyChanges,
} from "../../schema/keys.ts";
import type { Orm } from "../database/database.ts";
import { type KeyDetails, settingsOf, verificationSettings } from "./stored-keys.ts";

export interface NewKeySettings {
  readonly name: string;
  readonly plan: Plan;
  /** The key's own limits on the Enterprise plan; `null` on every other plan. */
  readonly limits: Limits | null;
  readonly expiresAt: Date | null;
  /** The region of the key's Durable Object, which never moves; `null`: near its first use. */
  readonly locationHint?: LocationHint | null;
}

/** A key's record and, as `key`, its secret, which is not stored (docs/api.md, Authentication). */
export interface CreatedKey {
  readonly key: string;
  readonly record: KeyDetails;
}

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
  const { limits, locationHint = null, ...others } = settings;
  const { key, ...hashed } = newSecret();
  const record = {
    id: generateKeyId(),
    ...hashed,
    ...others,
    perMinute: limits?.perMinute ?? null,
    perDay: limits?.perDay ?? null,
    createdAt: now,
    revokedAt: null,
    revision: 0,
    resets: 0,
    locationHint,
    formerKeyEnds: [],
    bannedUntil: null,
  };
  return { key, record };
}

/** Creates the key of `npm run verify`, without storing it. */
export function createVerificationKey(now: Date): CreatedKey {
  return createApiKey(verificationSettings(now), now);
}

/** Returns the key with a new secret. Earlier secrets expire at `formerEndsAt` at the latest. */
export function rotateApiKey(current: KeyDetails, formerEndsAt: Date, now: Date): CreatedKey {
  const { key, ...hashed } = newSecret();
  const earlierEnds = current.formerKeyEnds
    .filter((end) => end > now)
    .map((end) => (end < formerEndsAt ? end : formerEndsAt));
  return { key, record: { ...current, ...hashed, formerKeyEnds: [...earlierEnds, formerEndsAt] } };
}

/** Returns the key as revoked. A key that is already revoked keeps its time of revocation. */
export function revokeApiKey(current: KeyDetails, now: Date): KeyDetails {
  return { ...current, revokedAt: current.revokedAt ?? now };
}

/** Returns the key with one more reset, so that its limiter forgets the windows and the bans. */
export function resetApiKey(current: KeyDetails): KeyDetails {
  return { ...current, resets: current.resets + 1, bannedUntil: null };
}

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
  // NULL if the stored key has another revision. `key_id` is NOT NULL, so the transaction then fails.
  const unchanged = orm
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.id, id), eq(apiKeys.revision, revision)));
  const details = differences(before, after);
  const statements: SQLWrapper[] = [
    orm.insert(keyChanges).values({ ...operation, keyId: sql`${unchanged}`, details }),
    orm.update(apiKeys).set(after).where(eq(apiKeys.id, id)),
  ];
  if (after.hash !== before.hash) statements.push(...formerHashes(orm, before, after, at));
  if (after.resets !== before.resets) {
    const isInForce = and(eq(keyBans.keyId, id), gt(keyBans.endsAt, at), isNull(keyBans.liftedAt));
    statements.push(orm.update(keyBans).set({ liftedAt: at }).where(isInForce));
  }
  return statements;
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

/** Returns the settings where two states of a key differ; for a new key, all that are set. */
function differences(before: KeyDetails | undefined, after: KeyDetails): KeyChangeDetails {
  // As JSON, times are texts.
  const toJson = (key: KeyDetails): Record<string, string | number | null> =>
    JSON.parse(JSON.stringify(settingsOf(key)));
  const former = before ? toJson(before) : {};
  const changes = Object.entries(toJson(after)).map(
    ([field, to]) => [field, { from: former[field] ?? null, to }] as const,
  );
  return Object.fromEntries(changes.filter(([, { from, to }]) => from !== to));
}
