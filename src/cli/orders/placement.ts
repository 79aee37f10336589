import { type SQL, sql } from "drizzle-orm";
import { SQLiteAsyncDialect } from "drizzle-orm/sqlite-core";
import type { Statement, StoreDatabase } from "../database/database.ts";

/** What placing the staged orders would do. */
export interface PlacementSummary {
  /** Different ids among them. */
  readonly orders: number;
  /** The first line that would turn a shipped order back, with the id of that order. */
  readonly refused: { readonly line: number; readonly id: string } | null;
}

/** The staged orders of one import, each id once: the last of duplicates wins. */
function stagedOrders(importId: string): SQL {
  return sql`(
    SELECT max(line) AS line, id, pet_id, quantity, ship_date, complete, status
    FROM (
      SELECT
        entry.value ->> 0 AS line, entry.value ->> 1 AS id, entry.value ->> 2 AS pet_id,
        entry.value ->> 3 AS quantity, entry.value ->> 4 AS ship_date,
        entry.value ->> 5 AS complete, entry.value ->> 6 AS status
      FROM order_import_chunks AS chunk, json_each(chunk.lines) AS entry
      WHERE chunk.import_id = ${importId}
    )
    GROUP BY id
  ) AS staged`;
}

/** Looks at what placing would do, without changing anything. */
export async function summarize(
  { orm }: StoreDatabase,
  importId: string,
): Promise<PlacementSummary> {
  const turnsBack = sql`orders.status = 'shipped' AND staged.status <> 'shipped'`;
  // A bare column beside min() is of the row that holds the minimum (SQLite, section Bare columns).
  const [summary] = await orm
    .select({
      orders: sql<number>`count(*)`.as("orders"),
      line: sql<number | null>`min(CASE WHEN ${turnsBack} THEN staged.line END)`.as("line"),
      id: sql<string>`staged.id || ''`.as("id"),
    })
    .from(sql`${stagedOrders(importId)} LEFT JOIN orders ON orders.id = staged.id`);
  if (summary === undefined) return { orders: 0, refused: null };
  const { orders, line, id } = summary;
  return { orders, refused: line === null ? null : { line, id } };
}

/**
 * The statements that put the staged orders in place and delete the staging, for one transaction.
 * Run once more they do nothing. The id of a cancelled order places it anew.
 */
export function placeStatements(importId: string): Statement[] {
  return [
    toStatement(sql`
      INSERT INTO orders (id, pet_id, quantity, ship_date, complete, status)
      SELECT id, pet_id, quantity, ship_date, complete, status FROM ${stagedOrders(importId)}
      WHERE true
      ON CONFLICT (id) DO UPDATE SET
        pet_id = excluded.pet_id, quantity = excluded.quantity, ship_date = excluded.ship_date,
        complete = excluded.complete, status = excluded.status, cancelled_at = NULL`),
    toStatement(sql`DELETE FROM order_import_chunks WHERE import_id = ${importId}`),
  ];
}

function toStatement(query: SQL): Statement {
  const { sql: text, params } = new SQLiteAsyncDialect().sqlToQuery(query);
  return { sql: text, params: params as Statement["params"] };
}
