import { type SQL, sql } from "drizzle-orm";
import { SQLiteAsyncDialect } from "drizzle-orm/sqlite-core";
import type { Statement } from "../database/database.ts";
import { beginBulkChange, endBulkChange, noteBulkChange } from "./bulk-change.ts";
import type { ImportSizes } from "./staging.ts";

/** Consecutive parts of an import: the numbers of the first and the last part. */
interface PartRange {
  readonly importId: string;
  readonly first: number;
  readonly last: number;
}

/**
 * Returns the statements that write the orders of an import to the table `orders` and delete the
 * stored parts of the import. The statements must run in one transaction. They write only orders
 * that differ from the stored orders, and fail if a part is missing.
 *
 * @param isBulk true rebuilds all segments at the end; false lets triggers update the segments.
 */
export function placeStatements(
  importId: string,
  partCount: number,
  sizes: ImportSizes,
  isBulk: boolean,
): Statement[] {
  const placing = [...ranges(importId, partCount, sizes.partsPerStatement)].flatMap((range) => [
    ...(isBulk ? [noteBulkChange(stagedOrders(range), DIFFERS)] : []),
    // Not an upsert, which also fires the trigger that records what INSERT OR REPLACE replaces.
    sql`
      UPDATE orders SET
        pet_id = staged.pet_id, quantity = staged.quantity, ship_date = staged.ship_date,
        complete = staged.complete, status = staged.status
      FROM ${stagedOrders(range)}
      WHERE orders.id = staged.id AND ${DIFFERS}`,
    sql`
      INSERT INTO orders (id, pet_id, quantity, ship_date, complete, status)
      SELECT id, pet_id, quantity, ship_date, complete, status FROM ${stagedOrders(range)}
      WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = staged.id)`,
    sql`DELETE FROM order_import_parts AS parts WHERE ${isIn(range)}`,
  ]);
  const all = isBulk ? [beginBulkChange(), ...placing, ...endBulkChange(sizes)] : placing;
  return [requireParts(importId, partCount), ...all].map(toStatement);
}

/** The SQL condition that a stored order is missing or differs from the imported order. */
export const DIFFERS = sql.raw(
  "(orders.pet_id, orders.quantity, orders.ship_date, orders.complete, orders.status) IS NOT " +
    "(staged.pet_id, staged.quantity, staged.ship_date, staged.complete, staged.status)",
);

/**
 * Returns a statement that fails if a part of the import is missing. Another import of the same
 * orders or housekeeping may have deleted the part.
 *
 * SQLite can raise custom errors only in triggers. So if a part is missing, the statement inserts a
 * row that a CHECK constraint forbids.
 */
function requireParts(importId: string, partCount: number): SQL {
  return sql`
    INSERT INTO order_bulk_change (id, changed) SELECT 2, 0
    WHERE (SELECT count(*) FROM order_import_parts WHERE import_id = ${importId}) <> ${partCount}`;
}

/** Yields ranges of at most `size` parts, which together are all parts of an import. */
export function* ranges(importId: string, partCount: number, size: number): Generator<PartRange> {
  for (let first = 0; first < partCount; first += size) {
    yield { importId, first, last: Math.min(first + size, partCount) - 1 };
  }
}

function isIn({ importId, first, last }: PartRange): SQL {
  return sql`parts.import_id = ${importId} AND parts.part BETWEEN ${first} AND ${last}`;
}

/** Returns the orders of some stored parts as the SQL table `staged`. */
export function stagedOrders(range: PartRange): SQL {
  return entries(
    sql`order_import_parts AS parts, json_each(parts.lines) AS entry WHERE ${isIn(range)}`,
  );
}

/** Returns the orders of the JSON values `entry` in the SQL `source` as the table `staged`. */
export function entries(source: SQL): SQL {
  return sql`(
    SELECT
      entry.value ->> 0 AS line, entry.value ->> 1 AS id, entry.value ->> 2 AS pet_id,
      entry.value ->> 3 AS quantity, entry.value ->> 4 AS ship_date,
      entry.value ->> 5 AS complete, entry.value ->> 6 AS status
    FROM ${source}
  ) AS staged`;
}

export function toStatement(query: SQL): Statement {
  const { sql: text, params } = new SQLiteAsyncDialect().sqlToQuery(query);
  return { sql: text, params: params as Statement["params"] };
}
