import { sql } from "drizzle-orm";
import {
  check,
  index,
  integer,
  primaryKey,
  sqliteTable,
  text,
  uniqueIndex,
} from "drizzle-orm/sqlite-core";
import { PLANS } from "../rules/limits/plans.ts";
import { LOCATION_HINTS } from "../rules/keys/location-hints.ts";

/** The API keys, with the SHA-256 of each secret (docs/api.md, Authentication). */
export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text("id").primaryKey().notNull(),
    /** SHA-256 of the API key's secret in lower-case hexadecimal. */
    hash: text("hash").notNull(),
    /** The last four characters of the secret. */
    lastFour: text("last_four").notNull(),
    name: text("name").notNull(),
    plan: text("plan", { enum: PLANS }).notNull(),
    /** The limits of requests. Set only for Enterprise keys. */
    perMinute: integer("per_minute"),
    perDay: integer("per_day"),
    createdAt: integer("created_at", { mode: "timestamp_ms" }).notNull(),
    expiresAt: integer("expires_at", { mode: "timestamp_ms" }),
    revokedAt: integer("revoked_at", { mode: "timestamp_ms" }),
    /** Grows with every change of the key, so that a limiter can ignore outdated limits. */
    revision: integer("revision").notNull().default(0),
    /** When this number has grown, the key's limiter forgets its windows and its ban. */
    resets: integer("resets").notNull().default(0),
    /** Where the key's Durable Object is created; `null` for near the key's first request. */
    locationHint: text("location_hint", { enum: LOCATION_HINTS }),
  },
  (key) => [
    uniqueIndex("api_keys_hash").on(key.hash),
    check("last_four_is_no_more_of_the_key", sql`length(${key.lastFour}) = 4`),
    check("plan_is_known", sql`${key.plan} IN ('free', 'pro', 'business', 'enterprise')`),
    check(
      "enterprise_has_its_own_limits",
      sql`(${key.plan} = 'enterprise') = (${key.perMinute} IS NOT NULL) AND (${key.plan} = 'enterprise') = (${key.perDay} IS NOT NULL)`,
    ),
    check("limits_are_positive", sql`${key.perMinute} > 0 AND ${key.perDay} > 0`),
  ],
);

/** The former hashes of rotated keys. A former secret stays valid for a while after the rotation. */
export const formerKeyHashes = sqliteTable(
  "former_key_hashes",
  {
    /** SHA-256 of the former secret in lower-case hexadecimal. */
    hash: text("hash").primaryKey().notNull(),
    keyId: text("key_id").notNull(),
    endsAt: integer("ends_at", { mode: "timestamp_ms" }).notNull(),
    /** The last four characters of the former secret. */
    lastFour: text("last_four").notNull(),
  },
  (former) => [index("former_key_hashes_key_id").on(former.keyId)],
);

const KEY_ACTIONS = ["create", "update", "rotate", "revoke", "reset", "undo"] as const;

/** The audit trail of the keys. Triggers prevent changing or deleting rows. */
export const keyChanges = sqliteTable(
  "key_changes",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    at: integer("at", { mode: "timestamp_ms" }).notNull(),
    actor: text("actor").notNull(),
    action: text("action", { enum: KEY_ACTIONS }).notNull(),
    keyId: text("key_id").notNull(),
    /** A JSON object with each changed field, its old value and its new value. */
    details: text("details", { mode: "json" }).$type<KeyChangeDetails>().notNull(),
  },
  (change) => [index("key_changes_key_id").on(change.keyId)],
);

/** The fields of a key that a change replaced, with their old and new values. */
export type KeyChangeDetails = Readonly<
  Record<string, { readonly from: string | number | null; readonly to: string | number | null }>
>;

/** The usage of each key on each day in UTC, as the key's limiter last reported it. */
export const keyUsage = sqliteTable(
  "key_usage",
  {
    keyId: text("key_id").notNull(),
    /** In UTC, such as `2026-11-21`. */
    day: text("day").notNull(),
    admitted: integer("admitted").notNull(),
    refused: integer("refused").notNull(),
    strikes: integer("strikes").notNull(),
    bans: integer("bans").notNull(),
    /** The most requests that a minute window admitted on this day; `peakDay`: a day window. */
    peakMinute: integer("peak_minute").notNull(),
    peakDay: integer("peak_day").notNull(),
    /** The limits that applied to the key's last request of the day. */
    perMinute: integer("per_minute").notNull(),
    perDay: integer("per_day").notNull(),
    reportedAt: integer("reported_at", { mode: "timestamp_ms" }).notNull(),
  },
  (usage) => [primaryKey({ columns: [usage.day, usage.keyId] })],
);

/** The bans of keys. A limiter inserts a row when a ban begins. */
export const keyBans = sqliteTable(
  "key_bans",
  {
    keyId: text("key_id").notNull(),
    beganAt: integer("began_at", { mode: "timestamp_ms" }).notNull(),
    endsAt: integer("ends_at", { mode: "timestamp_ms" }).notNull(),
    /** The number of consecutive bans of the key, including this ban. */
    number: integer("number").notNull(),
    /**
     * The time at which `keys reset` lifted the ban early, or at which a report found that the ban
     * lay ahead of the clock; `null` otherwise.
     */
    liftedAt: integer("lifted_at", { mode: "timestamp_ms" }),
  },
  (ban) => [primaryKey({ columns: [ban.keyId, ban.beganAt] })],
);
