import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { PLANS } from "../limits/plans.ts";
import { LOCATION_HINTS } from "./location-hints.ts";

/** The API keys, with the SHA-256 of each secret (docs/api.md, Authentication). */
export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text("id").primaryKey().notNull(),
    /** SHA-256 of the secret in lower-case hexadecimal. */
    hash: text("hash").notNull().unique(),
    name: text("name").notNull(),
    plan: text("plan", { enum: PLANS }).notNull(),
    /** Only where the plan is Enterprise. */
    perMinute: integer("per_minute"),
    /** Only where the plan is Enterprise. */
    perDay: integer("per_day"),
    createdAt: integer("created_at", { mode: "timestamp_ms" }).notNull(),
    expiresAt: integer("expires_at", { mode: "timestamp_ms" }),
    revokedAt: integer("revoked_at", { mode: "timestamp_ms" }),
    /** Grows with every change of the key, so a limiter recognizes the newer version of it. */
    revision: integer("revision").notNull().default(0),
    /** Grows with every `keys reset`. A limiter that receives a larger number forgets its counts. */
    resets: integer("resets").notNull().default(0),
    /** The last four characters of the secret; `null` for a key that is older than this column. */
    lastFour: text("last_four"),
    /** The region in which the first request creates the key's Durable Object; `null`: near it. */
    locationHint: text("location_hint", { enum: LOCATION_HINTS }),
  },
  (key) => [
    check("last_four_is_no_more_of_the_key", sql`length(${key.lastFour}) = 4`),
    check("plan_is_known", sql`${key.plan} IN ('free', 'pro', 'business', 'enterprise')`),
    check(
      "enterprise_has_its_own_limits",
      sql`(${key.plan} = 'enterprise') = (${key.perMinute} IS NOT NULL) AND (${key.plan} = 'enterprise') = (${key.perDay} IS NOT NULL)`,
    ),
    check("limits_are_positive", sql`${key.perMinute} > 0 AND ${key.perDay} > 0`),
  ],
);

/** Former hashes of rotated keys, which stay valid for a while. */
export const formerKeyHashes = sqliteTable(
  "former_key_hashes",
  {
    /** SHA-256 of the former secret in lower-case hexadecimal. */
    hash: text("hash").primaryKey().notNull(),
    keyId: text("key_id").notNull(),
    /** The former secret is valid until then. */
    endsAt: integer("ends_at", { mode: "timestamp_ms" }).notNull(),
  },
  (former) => [index("former_key_hashes_key_id").on(former.keyId)],
);

const KEY_ACTIONS = ["create", "update", "rotate", "revoke", "reset", "restore"] as const;

/** The audit trail: who changed which key, when and how. Triggers refuse to change or delete rows. */
export const keyChanges = sqliteTable(
  "key_changes",
  {
    id: integer("id").primaryKey({ autoIncrement: true }),
    at: integer("at", { mode: "timestamp_ms" }).notNull(),
    actor: text("actor").notNull(),
    action: text("action", { enum: KEY_ACTIONS }).notNull(),
    keyId: text("key_id").notNull(),
    /** A JSON object of the fields that changed, each with its old and its new value. */
    details: text("details", { mode: "json" }).$type<KeyChangeDetails>().notNull(),
  },
  (change) => [index("key_changes_key_id").on(change.keyId)],
);

/** The fields of a key that a change replaced. */
export type KeyChangeDetails = Readonly<
  Record<string, { readonly from: string | number | null; readonly to: string | number | null }>
>;

/** The usage of each key on a day in UTC, as its limiter last reported it. */
export const keyUsage = sqliteTable(
  "key_usage",
  {
    keyId: text("key_id").notNull(),
    /** `2026-11-21` */
    day: text("day").notNull(),
    admitted: integer("admitted").notNull(),
    refused: integer("refused").notNull(),
    strikes: integer("strikes").notNull(),
    bans: integer("bans").notNull(),
    /** The largest counts of a minute window and of the day window. */
    peakMinute: integer("peak_minute").notNull(),
    peakDay: integer("peak_day").notNull(),
    /** The limits that applied last. */
    perMinute: integer("per_minute").notNull(),
    perDay: integer("per_day").notNull(),
    reportedAt: integer("reported_at", { mode: "timestamp_ms" }).notNull(),
  },
  (usage) => [primaryKey({ columns: [usage.day, usage.keyId] })],
);

/** The bans of keys. A limiter adds a ban when it begins, and `keys reset` lifts it. */
export const keyBans = sqliteTable(
  "key_bans",
  {
    keyId: text("key_id").notNull(),
    beganAt: integer("began_at", { mode: "timestamp_ms" }).notNull(),
    endsAt: integer("ends_at", { mode: "timestamp_ms" }).notNull(),
    /** The number of bans in a row, including this one. */
    number: integer("number").notNull(),
    /** The time at which an operator lifted the ban before its end. */
    liftedAt: integer("lifted_at", { mode: "timestamp_ms" }),
  },
  (ban) => [primaryKey({ columns: [ban.keyId, ban.beganAt] })],
);
