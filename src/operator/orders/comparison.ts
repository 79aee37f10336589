import { type SQL, sql } from "drizzle-orm";
import type { StoreDatabase } from "../database/database.ts";
import { DIFFERS, entries, ranges, stagedOrders, toStatement } from "./placement.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import { ElementError, type SourceElement } from "./source.ts";
import { divide, IMPORT_SIZES, type StagedImport } from "./staging.ts";

/** How the orders of an import differ from the stored orders. Each order is in one number. */
export interface Comparison {
  readonly new: number;
  readonly replaced: number;
  /** The number of pending orders that the import ships. It may change other fields too. */
  readonly shipped: number;
  readonly unchanged: number;
}

/**
 * Compares the orders of a file with the stored orders, without writing to the database.
 *
 * @throws {ElementError} if an order would make a shipped order pending again; the message names
 *   the first such line or element.
 */
export function compareFile(
  database: StoreDatabase,
  orders: SortedOrders,
  sizes = IMPORT_SIZES,
): Promise<Comparison> {
  const tables = divide(orders, sizes).map(({ lines }) =>
    entries(sql`json_each(${lines}) AS entry`),
  );
  return compare(database, tables, orders.kind);
}

/** Compares the stored parts of an import with the stored orders, as `compareFile` does. */
export function compareParts(database: StoreDatabase, staged: StagedImport): Promise<Comparison> {
  return compare(database, ranges(staged).map(stagedOrders), staged.kind);
}

async function compare(
  database: StoreDatabase,
  tables: Iterable<SQL>,
  kind: SourceElement["kind"],
): Promise<Comparison> {
  const counts = { new: 0, replaced: 0, shipped: 0, unchanged: 0 };
  let refused = { line: Infinity, id: "" };
  for (const staged of tables) {
    // SQLite takes the column `id` from the same row as the minimum of `line`.
    const query = sql`
      SELECT
        min(iif(orders.status = 'shipped' AND staged.status <> 'shipped', staged.line, NULL)) AS line,
        staged.id || '' AS id,
        count(*) AS total,
        count(*) FILTER (WHERE orders.id IS NULL) AS new,
        count(*) FILTER (WHERE orders.status = 'pending' AND staged.status = 'shipped') AS shipped,
        count(*) FILTER (WHERE orders.id IS NOT NULL AND NOT ${DIFFERS}) AS unchanged
      FROM ${staged} LEFT JOIN orders ON orders.id = staged.id`;
    const [row] = await database.runIdempotent(toStatement(query));
    const [line, id, total, added, shipped, unchanged] = row as [
      ...[line: number | null, id: string],
      ...[total: number, added: number, shipped: number, unchanged: number],
    ];
    counts.new += added;
    counts.replaced += total - added - shipped - unchanged;
    counts.shipped += shipped;
    counts.unchanged += unchanged;
    if (line !== null && line < refused.line) refused = { line, id };
  }
  if (refused.line === Infinity) return counts;
  throw new ElementError(
    { kind, number: refused.line },
    `order ${refused.id} has shipped, which cannot be turned back`,
  );
}
