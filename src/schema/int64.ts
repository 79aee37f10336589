import { type SQL, sql } from "drizzle-orm";
import { customType, type SQLiteColumn } from "drizzle-orm/sqlite-core";

/**
 * A column of 64-bit signed integers. D1 cannot bind a bigint, so values are bound as decimal text,
 * which the column converts without loss. D1 rounds integers above 2^53 in its results, so a query
 * selects the column with `exact`.
 */
export const int64 = customType<{ data: bigint; driverData: string }>({
  dataType: () => "integer",
  toDriver: String,
  fromDriver: (value) => {
    if (typeof value === "string") return BigInt(value);
    throw new TypeError("An int64 was selected as a number: select it with `exact(column)`.");
  },
});

/** Selects an int64 column as text, from which it is read as a bigint. */
export function exact<Column extends SQLiteColumn>(column: Column) {
  return sql`CAST(${column} AS TEXT)`.mapWith(column) as SQL<Column["_"]["data"]>;
}
