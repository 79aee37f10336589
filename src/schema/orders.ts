import { type SQL, sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { int64 } from "./int64.ts";

/** The statuses of listed orders. A cancelled order is in `cancelledOrders`. */
const ORDER_STATUSES = ["pending", "shipped"] as const;

/** The fields of an order beside its id, in each table that keeps orders, and in its triggers. */
export const orderFields = {
  petId: int64("pet_id"),
  quantity: int64("quantity"),
  /** RFC 3339 in UTC with three decimals. */
  shipDate: text("ship_date"),
  complete: integer("complete", { mode: "boolean" }),
};

/** The orders that the list contains. */
export const orders = sqliteTable(
  "orders",
  {
    id: int64("id").primaryKey(),
    ...orderFields,
    status: text("status", { enum: ORDER_STATUSES }).notNull().default("pending"),
  },
  (order) => [
    check(
      "ship_date_is_utc_milliseconds",
      sql`${order.shipDate} IS strftime('%Y-%m-%dT%H:%M:%fZ', ${order.shipDate}, '+0 seconds')`,
    ),
    check("complete_is_boolean", sql`${order.complete} IN (0, 1)`),
    check("status_is_known", sql`${order.status} IN ('pending', 'shipped')`),
  ],
);

/** The keys of `orderFields`, in the API's sequence. */
export const ORDER_FIELD_NAMES = Object.keys(orderFields) as (keyof typeof orderFields)[];

/** The fields that the API shows, in its sequence. */
export const LISTED_FIELDS = ["id", ...ORDER_FIELD_NAMES] as const;

/** The names of the columns of `orderFields`. */
export const ORDER_FIELDS = ORDER_FIELD_NAMES.map((field) => orders[field].name);

/**
 * The version of the list of orders, in a single row. Triggers (`migrations/orders`) replace it with
 * every change of an order. It is random, so that a restored database never repeats a version.
 */
export const orderList = sqliteTable(
  "order_list",
  {
    id: integer("id").primaryKey(),
    version: text("version").notNull(),
    /** The sequence number of the change that set `version` (see `orderChanges`). */
    sequence: integer("sequence").notNull(),
  },
  (list) => [check("order_list_is_one_row", sql`${list.id} = 1`)],
);

/** The former states of orders, to read an earlier list. Triggers insert them with every change. */
export const orderChanges = sqliteTable("order_changes", {
  /** Unix microseconds; one more than the previous change's number if that is larger. */
  sequence: integer("sequence").primaryKey(),
  /** The list's version after the change. A restored database can assign `sequence` again. */
  version: text("version").notNull(),
  /** The changed order; `null` for a bulk change, which keeps no former states. */
  id: int64("id"),
  /** Whether the order was in the list before the change. If not, the other columns are `null`. */
  wasListed: integer("was_listed", { mode: "boolean" }).notNull(),
  ...orderFields,
});

/** The lists under way for hours: housekeeping keeps the former states that they are read from. */
export const orderListLeases = sqliteTable("order_list_leases", {
  /** The last change that the list shows (see `orderChanges`). */
  sequence: integer("sequence").primaryKey(),
  /** When a list of this sequence number last asked for its former states. */
  renewedAt: integer("renewed_at", { mode: "timestamp_ms" }).notNull(),
});

/**
 * The segments of the list of orders, with a few thousand orders each: the ids from `firstId` until
 * before the `firstId` of the next segment. Triggers give a segment a new random version with every
 * change of its orders, and split a large one. So a version identifies the same orders forever.
 */
export const orderSegments = sqliteTable("order_segments", {
  firstId: int64("first_id").primaryKey(),
  version: text("version").notNull(),
  /** An upper bound of the length of the orders' JSON: `INSERT OR REPLACE` may count one twice. */
  bytes: integer("bytes").notNull(),
});

/** A trigger splits a segment above this size. A segment is what a list reads and sends at once. */
export const SEGMENT_BYTES = 262_144;

/** Returns SQL for an upper bound of the length of an order's JSON in bytes, as triggers have it. */
export function orderBytes(order = "orders"): SQL<number> {
  const columns = ["id", ...ORDER_FIELDS].map((name) => `${order}.${name}`);
  return sql.raw(`64 + octet_length(concat(${columns.join(", ")}))`) as SQL<number>;
}

/**
 * Turns off the triggers on `order_list` and `order_segments` while it has a row: within the
 * transaction of a bulk change such as an import, which rebuilds the segments at its end.
 */
export const orderBulkChange = sqliteTable(
  "order_bulk_change",
  { id: integer("id").primaryKey() },
  (change) => [check("order_bulk_change_is_one_row", sql`${change.id} = 1`)],
);

/** The cancelled orders. An id can occur several times: a cancelled order can be placed again. */
export const cancelledOrders = sqliteTable(
  "cancelled_orders",
  {
    /**
     * Unix microseconds, or one more than every earlier position and `sequence` if that is larger. The
     * cancelling transaction sets it, so a reader that goes on after a position misses none.
     */
    position: integer("position").primaryKey(),
    /** By the database's clock. */
    cancelledAt: integer("cancelled_at", { mode: "timestamp_ms" }).notNull(),
    /** The id of the API key that cancelled the order; `null` if it is not known. */
    cancelledBy: text("cancelled_by"),
    id: int64("id").notNull(),
    ...orderFields,
  },
  (order) => [index("cancelled_orders_id").on(order.id)],
);

/** Parts of imports. After the last part has arrived, one transaction moves all to `orders`. */
export const orderImportParts = sqliteTable(
  "order_import_parts",
  {
    /** A digest of the whole import, so that a repeated import reuses its parts. */
    importId: text("import_id").notNull(),
    /** The number of the part within its import, starting at 0. */
    part: integer("part").notNull(),
    createdAt: integer("created_at", { mode: "timestamp_ms" }).notNull(),
    /** A JSON array of `[line, …]`, with the columns of `orders`. */
    lines: text("lines").notNull(),
  },
  (parts) => [primaryKey({ columns: [parts.importId, parts.part] })],
);
