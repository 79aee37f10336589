import { createHash } from "node:crypto";
import { eq, getTableColumns, type SQL, sql } from "drizzle-orm";
import { orderImportParts, orders as ordersTable, orderSegments } from "../../schema/orders.ts";
import { INT64_MIN } from "../../rules/int64.ts";
import { DATABASE_TIME, type StoreDatabase } from "../database/database.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import { ElementError, type SourceElement } from "./source.ts";

/** How an import divides its orders. Tests set smaller sizes. */
export const IMPORT_SIZES = {
  /** The size limit of a part in ASCII characters. A part is one row; D1 limits a row to 2 MB. */
  partCharacters: 1_900_000,
  /** The number of parts per statement: about 40,000 orders. D1 allows a statement 30 seconds. */
  partsPerStatement: 2,
  /** The most parts that one batch places: about 80,000 orders. D1 allows a batch 30 seconds. */
  partsPerBatch: 4,
  /** The orders per rebuilt segment. A trigger splits a segment above 1.5 times this number. */
  segmentOrders: 8_192,
};

/** An import whose parts are all in the store, but whose orders are not placed yet. */
interface StagedImport {
  readonly importId: string;
  readonly partCount: number;
  readonly kind: SourceElement["kind"];
}

/** Returns a digest of orders and part size, so that imports with equal ids have equal parts. */
export function importIdOf(orders: SortedOrders): string {
  const hash = createHash("sha256").update(String(IMPORT_SIZES.partCharacters));
  for (const text of orders.texts()) hash.update(text);
  return hash.digest("hex");
}

/** Returns how many parts of an import the store has. */
export function countParts({ orm }: StoreDatabase, importId: string): Promise<number> {
  return orm.$count(orderImportParts, eq(orderImportParts.importId, importId));
}

export async function discardParts({ orm }: StoreDatabase, importId: string): Promise<void> {
  await orm.delete(orderImportParts).where(eq(orderImportParts.importId, importId));
}

/**
 * Stores those parts of an import that the store lacks, each with its own call. So the import needs
 * little memory, and the service can use the database between the calls.
 *
 * @throws the reason of `signal` if `signal` is aborted, after storing the current part.
 */
export async function storeParts(
  { orm }: StoreDatabase,
  importId: string,
  orders: SortedOrders,
  signal: AbortSignal | undefined,
): Promise<StagedImport> {
  const { part, importId: id } = orderImportParts;
  const rows = await orm.select({ part }).from(orderImportParts).where(eq(id, importId));
  const stored = new Set(rows.map((row) => row.part));
  using progress = startProgress("Sending", orders.count());
  let partCount = 0;
  for (const { count, lines } of divide(orders)) {
    if (!stored.has(partCount)) {
      const row = { importId, part: partCount, createdAt: DATABASE_TIME, lines };
      await orm.insert(orderImportParts).values(row).onConflictDoNothing();
    }
    progress.advance(count);
    partCount += 1;
    signal?.throwIfAborted();
  }
  return { importId, partCount, kind: orders.kind };
}

/** Divides the orders of an import into parts. `lines` is a JSON array of `count` orders. */
function* divide(orders: SortedOrders): Generator<{ count: number; lines: string }> {
  let lines: string[] = [];
  let characters = 2;
  for (const text of orders.texts()) {
    if (characters + text.length > IMPORT_SIZES.partCharacters) {
      yield { count: lines.length, lines: `[${lines.join()}]` };
      lines = [];
      characters = 2;
    }
    lines.push(text);
    characters += text.length + 1;
  }
  if (lines.length > 0) yield { count: lines.length, lines: `[${lines.join()}]` };
}

/** How the orders of an import differ from the stored orders. Each order is counted once. */
export interface Comparison {
  readonly new: number;
  readonly replaced: number;
  /** The number of pending orders that the import ships. Their other fields may change too. */
  readonly shipped: number;
  readonly unchanged: number;
}

/**
 * An import of at least this share of the stored orders is large. It turns off the triggers and
 * rebuilds all segments, which is faster. A smaller import keeps the triggers, because every
 * isolate must read all orders again after a rebuild.
 */
const BULK_SHARE = 1 / 8;

/** The columns of `orders`, in the sequence of `SortedOrders`; the first one is `id`. */
const COLUMNS = Object.values(getTableColumns(ordersTable)).map(({ name }) => name);

/** Returns SQL with what `write` returns for each column, separated by commas. */
const listOf = (write: (name: string, index: number) => string, columns = COLUMNS) =>
  sql.raw(columns.map(write).join());

/** True if the stored order is missing or differs from the imported order. */
const DIFFERS = sql`(${listOf((name) => `orders.${name}`)}) IS NOT (${listOf((name) => `staged.${name}`)})`;

const IS_STORED = sql.raw("orders.id IS NOT NULL");
const SHIPS = sql.raw("orders.status = 'pending' AND staged.status = 'shipped'");
const count = (condition: SQL) => sql<number>`count(*) FILTER (WHERE ${condition})`;

/** The figures of `compare`. SQLite takes `id` from the same row as the minimum of `line`. */
const COMPARED = {
  new: count(sql`NOT (${IS_STORED})`),
  replaced: count(sql`${IS_STORED} AND ${DIFFERS} AND NOT (${SHIPS})`),
  shipped: count(SHIPS),
  unchanged: count(sql`${IS_STORED} AND NOT ${DIFFERS}`),
  /** The first line that makes a shipped order pending; `null` if none does. */
  line: sql<number | null>`
    min(iif(orders.status = 'shipped' AND staged.status <> 'shipped', staged.line, NULL))`,
  id: sql<string>`CAST(staged.id AS TEXT)`,
};

/**
 * Compares the orders of a file with the stored orders, without writing to the database.
 *
 * @throws {ElementError} for the first order that would make a shipped order pending again.
 */
export function compareFile(database: StoreDatabase, orders: SortedOrders): Promise<Comparison> {
  const tables = divide(orders).map(({ lines }) => entries(sql`json_each(${lines}) AS entry`));
  return compare(database, tables, orders.kind);
}

/** Compares the stored parts of an import with the stored orders, as `compareFile` does. */
export function compareParts(database: StoreDatabase, staged: StagedImport): Promise<Comparison> {
  return compare(database, ranges(staged).map(stagedOrders), staged.kind);
}

async function compare(
  { orm }: StoreDatabase,
  tables: Iterable<SQL>,
  kind: SourceElement["kind"],
): Promise<Comparison> {
  const counts = { new: 0, replaced: 0, shipped: 0, unchanged: 0 };
  let refused = { line: Infinity, id: "" };
  for (const staged of tables) {
    const [row] = await orm
      .select(COMPARED)
      .from(sql`${staged} LEFT JOIN orders ON orders.id = staged.id`);
    if (row === undefined) continue;
    for (const name of ["new", "replaced", "shipped", "unchanged"] as const) {
      counts[name] += row[name];
    }
    if (row.line !== null && row.line < refused.line) refused = { line: row.line, id: row.id };
  }
  if (refused.line === Infinity) return counts;
  const fault = `order ${refused.id} has shipped, which cannot be turned back`;
  throw new ElementError({ kind, number: refused.line }, fault);
}

/**
 * Writes the orders of an import that differ to the table `orders`, and deletes the stored parts of
 * the import, in one transaction.
 *
 * @param orderCount the number of orders in the import. A large import (see `BULK_SHARE`) rebuilds
 *   all segments at its end; during a smaller one, triggers update the segments.
 * @throws if a part is missing, or if an order would make a shipped order pending again.
 */
export async function place(
  database: StoreDatabase,
  staged: StagedImport,
  orderCount: number,
): Promise<void> {
  const stored = sql<number>`ifnull(sum(${orderSegments.count}), 0)`;
  const [store] = await database.orm.select({ count: stored }).from(orderSegments);
  const isBulk = orderCount >= (store?.count ?? 0) * BULK_SHARE;
  const placing = [...ranges(staged)].flatMap((range) => [
    // Not an upsert, which would also fire the trigger that is meant for INSERT OR REPLACE.
    sql`
      UPDATE orders SET ${listOf((name) => `${name} = staged.${name}`, COLUMNS.slice(1))}
      FROM ${stagedOrders(range)}
      WHERE orders.id = staged.id AND ${DIFFERS}`,
    sql`
      INSERT INTO orders (${listOf(String)}) SELECT ${listOf(String)} FROM ${stagedOrders(range)}
      WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = staged.id)`,
    sql`DELETE FROM order_import_parts AS parts WHERE ${range}`,
  ]);
  // While `order_bulk_change` has a row, the segment triggers are off.
  const begin = sql`INSERT INTO order_bulk_change (id) VALUES (1)`;
  const end = sql`DELETE FROM order_bulk_change`;
  const all = isBulk ? [begin, ...placing, ...rebuildSegments(), end] : placing;
  const isLong = staged.partCount > IMPORT_SIZES.partsPerBatch;
  await database.transaction([requireParts(staged), ...all], { isLong });
}

/** Yields for each statement the condition that selects its parts. */
function* ranges({ importId, partCount }: StagedImport): Generator<SQL> {
  const { partsPerStatement } = IMPORT_SIZES;
  for (let first = 0; first < partCount; first += partsPerStatement) {
    const last = first + partsPerStatement - 1;
    // Without parameters, because a long transaction has none.
    yield sql.raw(`parts.import_id = '${importId}' AND parts.part BETWEEN ${first} AND ${last}`);
  }
}

function stagedOrders(range: SQL): SQL {
  return entries(sql`order_import_parts AS parts, json_each(parts.lines) AS entry WHERE ${range}`);
}

/** Returns SQL that reads the JSON arrays `entry.value` of `source` as the table `staged`. */
function entries(source: SQL): SQL {
  return sql`(
    SELECT entry.value ->> 0 AS line,
      ${listOf((name, index) => `entry.value ->> ${index + 1} AS ${name}`)}
    FROM ${source}
  ) AS staged`;
}

/**
 * A statement that fails if a part is missing, by inserting a row that a CHECK constraint forbids.
 * Another import of the same orders, or housekeeping, may have deleted the part.
 */
function requireParts({ importId, partCount }: StagedImport): SQL {
  return sql.raw(`
    INSERT INTO order_bulk_change (id) SELECT 2
    WHERE (SELECT count(*) FROM order_import_parts WHERE import_id = '${importId}') <> ${partCount}`);
}

/**
 * Statements that replace all segments and the version of the list. One of them reads all orders. A
 * full database of 10 GB holds 100 million, which take about 10 seconds; D1 allows a statement 30.
 */
function rebuildSegments(): SQL[] {
  const { segmentOrders } = IMPORT_SIZES;
  return [
    sql`DELETE FROM order_segments`,
    sql`
      INSERT INTO order_segments (first_id, version, count)
      WITH RECURSIVE segment (first_id, next_id) AS (
        SELECT ${sql.raw(String(INT64_MIN))},
          (SELECT id FROM orders ORDER BY id LIMIT 1 OFFSET ${segmentOrders})
        UNION ALL
        SELECT next_id, (
          SELECT id FROM orders WHERE id >= segment.next_id ORDER BY id LIMIT 1 OFFSET ${segmentOrders})
        FROM segment WHERE next_id IS NOT NULL)
      SELECT first_id, lower(hex(randomblob(16))), iif(
        next_id IS NULL, (SELECT count(*) FROM orders WHERE id >= first_id), ${segmentOrders})
      FROM segment`,
    sql`UPDATE order_list SET version = lower(hex(randomblob(16)))`,
  ];
}
