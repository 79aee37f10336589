import { type SQL, sql } from "drizzle-orm";
import type { StoreDatabase } from "../database/database.ts";
import { DIFFERS, entries, ranges, stagedOrders, toStatement } from "./placement.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import { divide, type ImportSizes } from "./staging.ts";

/** How the orders of an import differ from the stored orders. Each order is in one number. */
export interface Comparison {
  readonly new: number;
  readonly replaced: number;
  /** The number of pending orders that the import ships. It may change other fields too. */
  readonly shipped: number;
  readonly unchanged: number;
  /** The first line that would make a shipped order pending again; `null` if there is none. */
  readonly refused: { readonly line: number; readonly id: string } | null;
}

const NOTHING: Comparison = { new: 0, replaced: 0, shipped: 0, unchanged: 0, refused: null };

/** Compares the orders of a file with the stored orders, without writing to the database. */
export async function compareOrders(
  database: StoreDatabase,
  orders: SortedOrders,
  sizes: ImportSizes,
): Promise<Comparison> {
  let all = NOTHING;
  for (const { lines } of divide(orders, sizes)) {
    all = add(all, await compare(database, entries(sql`json_each(${lines}) AS entry`)));
  }
  return all;
}

/** Compares the stored parts of an import with the stored orders. */
export async function compareParts(
  database: StoreDatabase,
  importId: string,
  partCount: number,
  { partsPerCheck }: ImportSizes,
): Promise<Comparison> {
  let all = NOTHING;
  for (const range of ranges(importId, partCount, partsPerCheck)) {
    all = add(all, await compare(database, stagedOrders(range)));
  }
  return all;
}

async function compare(database: StoreDatabase, staged: SQL): Promise<Comparison> {
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
  return {
    new: added,
    replaced: total - added - shipped - unchanged,
    shipped,
    unchanged,
    refused: line === null ? null : { line, id },
  };
}

function add(one: Comparison, other: Comparison): Comparison {
  const isFirst = other.refused === null || (one.refused?.line ?? Infinity) < other.refused.line;
  return {
    new: one.new + other.new,
    replaced: one.replaced + other.replaced,
    shipped: one.shipped + other.shipped,
    unchanged: one.unchanged + other.unchanged,
    refused: isFirst ? one.refused : other.refused,
  };
}
