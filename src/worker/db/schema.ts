import { sql } from "drizzle-orm";
import {
  check,
  customType,
  index,
  integer,
  primaryKey,
  sqliteTable,
  text,
} from "drizzle-orm/sqlite-core";
import { PLANS } from "../limits/plans.ts";

/**
 * A 64-bit signed integer. D1 cannot bind a `BigInt` and rounds integers above 2^53 in its results. So
 * values are bound as decimal text that SQLite casts, and must be selected as text.
 */
const int64 = customType<{ data: bigint; driverData: string }>({
  dataType: () => "integer",
  toDriver: (value) => sql`CAST(${value.toString()} AS INTEGER)`,
  fromDriver: (value) => BigInt(value),
});

const ORDER_STATUSES = ["pending", "shipped", "cancelled"] as const;

/**
 * The orders of the store. A trigger moves cancelled orders to `cancelledOrders`, so a scan reads only
 * listed orders.
 */
export const orders = sqliteTable(
  "orders",
  {
    id: int64("id").primaryKey(),
    petId: int64("pet_id"),
    quantity: int64("quantity"),
    /** RFC 3339 in UTC with three decimals. */
    shipDate: text("ship_date"),
    complete: integer("complete", { mode: "boolean" }),
    status: text("status", { enum: ORDER_STATUSES }).notNull().default("pending"),
    cancelledAt: integer("cancelled_at", { mode: "timestamp_ms" }),
  },
  (order) => [
    check(
      "ship_date_is_utc_milliseconds",
      sql`${order.shipDate} IS strftime('%Y-%m-%dT%H:%M:%fZ', ${order.shipDate}, '+0 seconds')`,
    ),
    check("complete_is_boolean", sql`${order.complete} IN (0, 1)`),
    check("status_is_known", sql`${order.status} IN ('pending', 'shipped', 'cancelled')`),
    check(
      "cancelled_orders_have_a_time",
      sql`(${order.status} = 'cancelled') = (${order.cancelledAt} IS NOT NULL)`,
    ),
  ],
);

/**
 * The version of the list, in one row. Triggers (`migrations/0003_order_segments.sql`) replace it with
 * every change of an order, whoever makes the change. Versions are random, not counted, so a database
 * that is restored to an earlier time never repeats one.
 */
export const orderList = sqliteTable(
  "order_list",
  {
    id: integer("id").primaryKey(),
    version: text("version").notNull(),
  },
  (list) => [check("order_list_is_one_row", sql`${list.id} = 1`)],
);

/**
 * The segments of the list, of some thousand orders each. A segment has the ids from `firstId` up to
 * the `firstId` of the next segment. The first segment begins at the smallest int64. Triggers
 * (`migrations/0003_order_segments.sql`) give a segment a new random version with every change of its
 * orders and split a segment that has grown. So a version names the same orders for ever.
 */
export const orderSegments = sqliteTable("order_segments", {
  firstId: int64("first_id").primaryKey(),
  version: text("version").notNull(),
  /** The number of orders or more: `INSERT OR REPLACE` may count an order twice. */
  count: integer("count").notNull(),
});

/**
 * Has a row only within the transaction of a bulk change. Meanwhile the triggers leave `order_list`
 * and `order_segments` alone. The transaction rebuilds the segments at its end.
 */
export const orderBulkChange = sqliteTable(
  "order_bulk_change",
  {
    id: integer("id").primaryKey(),
    /** 1 once an order has changed. If it stays 0, the segments stay as they are. */
    changed: integer("changed").notNull(),
  },
  (change) => [check("order_bulk_change_is_one_row", sql`${change.id} = 1`)],
);

/** Cancelled orders, kept for the record. An id that is placed again can be cancelled again. */
export const cancelledOrders = sqliteTable(
  "cancelled_orders",
  {
    cancelledAt: integer("cancelled_at", { mode: "timestamp_ms" }).notNull(),
    id: int64("id").notNull(),
    petId: int64("pet_id"),
    quantity: int64("quantity"),
    shipDate: text("ship_date"),
    complete: integer("complete", { mode: "boolean" }),
  },
  (order) => [primaryKey({ columns: [order.cancelledAt, order.id] })],
);

/**
 * Parts of an import that is under way: validated orders as JSON. One transaction moves them to
 * `orders` after the last line has been read.
 */
export const orderImportChunks = sqliteTable("order_import_chunks", {
  id: integer("id").primaryKey(),
  importId: text("import_id").notNull(),
  createdAt: integer("created_at", { mode: "timestamp_ms" }).notNull(),
  /** A JSON array of `[line, id, petId, quantity, shipDate, complete, status]`. */
  lines: text("lines").notNull(),
});

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

const KEY_ACTIONS = ["create", "update", "rotate", "revoke", "reset"] as const;

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
