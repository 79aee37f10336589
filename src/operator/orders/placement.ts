import { asc, eq, type SQL, sql } from "drizzle-orm";
import { SQLiteAsyncDialect } from "drizzle-orm/sqlite-core";
import { orderImportChunks } from "../../worker/db/orders-schema.ts";
import type { Statement, StoreDatabase } from "../database/database.ts";
import { beginBulkChange, endBulkChange, noteBulkChange } from "./bulk-change.ts";

/** Chunks that one statement places: some 40,000 orders, far below D1's 30 seconds. */
const CHUNKS_PER_STATEMENT = 64;
/** Chunks that one statement checks. Checking an order takes a tenth of the time of placing it. */
const CHUNKS_PER_CHECK = 1_024;

/** A line that would turn a shipped order back, with the order's id. */
interface RefusedLine {
  readonly line: number;
  readonly id: string;
}

/** Consecutive chunks of one import, by the ids of the first and the last. */
interface ChunkRange {
  readonly importId: string;
  readonly first: number;
  readonly last: number;
}

/** Reads the ids of an import's chunks, in the order in which they were staged. */
export async function readChunkIds({ orm }: StoreDatabase, importId: string): Promise<number[]> {
  const chunks = await orm
    .select({ id: orderImportChunks.id })
    .from(orderImportChunks)
    .where(eq(orderImportChunks.importId, importId))
    .orderBy(asc(orderImportChunks.id));
  return chunks.map(({ id }) => id);
}

/** Finds the first line of an import that would turn a shipped order back. */
export async function findRefusedLine(
  { orm }: StoreDatabase,
  importId: string,
  chunks: readonly number[],
): Promise<RefusedLine | null> {
  let refused: RefusedLine | null = null;
  for (const range of ranges(importId, chunks, CHUNKS_PER_CHECK)) {
    // SQLite takes a bare column beside min() from the row with the minimum.
    const [first] = await orm
      .select({
        line: sql<number | null>`min(staged.line)`.as("line"),
        id: sql<string>`staged.id || ''`.as("id"),
      })
      .from(sql`${stagedOrders(range)} JOIN orders ON orders.id = staged.id`)
      .where(sql`orders.status = 'shipped' AND staged.status <> 'shipped'`);
    const { line = null, id = "" } = first ?? {};
    if (line !== null && (refused === null || line < refused.line)) refused = { line, id };
  }
  return refused;
}

/**
 * Builds the statements that place the staged orders and delete their chunks, for one transaction.
 * They write only orders that differ and do nothing if they run again.
 *
 * @param isBulk true rebuilds the segments at the end; otherwise triggers update them.
 */
export function placeStatements(
  importId: string,
  chunks: readonly number[],
  isBulk: boolean,
): Statement[] {
  const placing = [...ranges(importId, chunks, CHUNKS_PER_STATEMENT)].flatMap((range) => [
    ...(isBulk ? [noteBulkChange(stagedOrders(range), differsFrom("staged"))] : []),
    sql`
      INSERT INTO orders (id, pet_id, quantity, ship_date, complete, status)
      SELECT id, pet_id, quantity, ship_date, complete, status FROM ${stagedOrders(range)}
      WHERE true
      ON CONFLICT (id) DO UPDATE SET
        pet_id = excluded.pet_id, quantity = excluded.quantity, ship_date = excluded.ship_date,
        complete = excluded.complete, status = excluded.status
      WHERE ${differsFrom("excluded")}`,
    sql`DELETE FROM order_import_chunks AS chunk WHERE ${isIn(range)}`,
  ]);
  const all = isBulk ? [beginBulkChange(), ...placing, ...endBulkChange()] : placing;
  return all.map(toStatement);
}

/** The condition that the stored order is missing or differs from the other one. */
function differsFrom(other: "staged" | "excluded"): SQL {
  return sql.raw(
    "(orders.pet_id, orders.quantity, orders.ship_date, orders.complete, orders.status) IS NOT " +
      `(${other}.pet_id, ${other}.quantity, ${other}.ship_date, ${other}.complete, ${other}.status)`,
  );
}

function* ranges(importId: string, chunks: readonly number[], size: number): Generator<ChunkRange> {
  for (let start = 0; start < chunks.length; start += size) {
    const part = chunks.slice(start, start + size);
    yield { importId, first: part[0] ?? 0, last: part.at(-1) ?? 0 };
  }
}

function isIn({ importId, first, last }: ChunkRange): SQL {
  return sql`chunk.id BETWEEN ${first} AND ${last} AND chunk.import_id = ${importId}`;
}

function stagedOrders(range: ChunkRange): SQL {
  return sql`(
    SELECT
      entry.value ->> 0 AS line, entry.value ->> 1 AS id, entry.value ->> 2 AS pet_id,
      entry.value ->> 3 AS quantity, entry.value ->> 4 AS ship_date,
      entry.value ->> 5 AS complete, entry.value ->> 6 AS status
    FROM order_import_chunks AS chunk, json_each(chunk.lines) AS entry
    WHERE ${isIn(range)}
  ) AS staged`;
}

function toStatement(query: SQL): Statement {
  const { sql: text, params } = new SQLiteAsyncDialect().sqlToQuery(query);
  return { sql: text, params: params as Statement["params"] };
}
