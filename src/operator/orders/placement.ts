import { createHash } from "node:crypto";
import { eq, getTableColumns, type SQL, sql } from "drizzle-orm";
import { orderImportParts, orders as ordersTable, orderSegments } from "../../schema/orders.ts";
import { INT64_MIN } from "../../rules/int64.ts";
import { errorMessage } from "../command-line.ts";
import { NotConfirmedError } from "../confirmation.ts";
import { DATABASE_TIME, type Orm, type StoreDatabase } from "../database/database.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import { ElementError } from "./source.ts";

/** How an import divides its orders. Tests set smaller sizes. */
export const IMPORT_SIZES = {
  /** The size limit of a part in ASCII characters. A part is one row; D1 limits a row to 2 MB. */
  partCharacters: 1_900_000,
  /** The parts of a batch. D1 allows it 30 seconds; a part has 20,000 orders. */
  partsPerBatch: 4,
  /** The orders per rebuilt segment. A trigger splits a segment above 1.5 times this number. */
  segmentOrders: 8_192,
};

/**
 * Imports orders, all or none. Sends only the parts that an earlier, unfinished import of the same
 * orders has not stored.
 *
 * @param signal ends the import, unless the database has begun to write to the table `orders`.
 * @param confirm is called before the table `orders` changes. Throws a `NotConfirmedError` to end.
 * @returns how the orders differed from the stored orders before the import.
 * @throws {ElementError} for the first order that would make a shipped order pending again; an
 *   Error for the operator for every other failure.
 */
export async function importOrders(
  database: StoreDatabase,
  orders: SortedOrders,
  signal?: AbortSignal,
  confirm = async (_comparison: Comparison) => {},
): Promise<Comparison> {
  const { orm } = database;
  const importId = importIdOf(orders);
  const isPart = eq(orderImportParts.importId, importId);
  try {
    const count = await storeParts(orm, importId, orders, signal);
    // Without parameters, because a long transaction has none.
    const parts = Array.from({ length: count }, (_, part) =>
      sql.raw(`parts.import_id = '${importId}' AND parts.part = ${part}`),
    );
    const comparison = await compare(database, parts.map(stagedOrders), orders);
    if (isUnchanged(comparison)) {
      await orm.delete(orderImportParts).where(isPart);
      return comparison;
    }
    await confirm(comparison);
    signal?.throwIfAborted();
    using _ = startProgress("Placing the orders");
    const statements = await placing(orm, orders, parts);
    const options = { isLong: count > IMPORT_SIZES.partsPerBatch };
    const all = [requireParts(importId, count), ...statements];
    const failure = await database.transaction(all, options).then(
      () => undefined,
      (error: Error) =>
        /_is_one_row/.test(error.message) ? new Error("parts of this import are gone") : error,
    );
    // Neither is believed: an answer can be lost, or another import of the same file come first.
    const isPlaced = failure === undefined && (await orm.$count(orderImportParts, isPart)) === 0;
    if (isPlaced || isUnchanged(await compareFile(database, orders))) return comparison;
    throw failure ?? new Error("the database reported success, but placed no order");
  } catch (cause) {
    if (cause instanceof ElementError || cause instanceof NotConfirmedError) throw cause;
    const stands = "Of the file, all orders are in the store or none: run the same command again";
    throw new Error(`${errorMessage(cause)}. ${stands}`, { cause });
  }
}

/** Returns a digest of orders and part size, so that imports with equal ids have equal parts. */
function importIdOf(orders: SortedOrders): string {
  const hash = createHash("sha256").update(String(IMPORT_SIZES.partCharacters));
  for (const text of orders.texts()) hash.update(text);
  return hash.digest("hex");
}

/** Stores the parts that the store lacks, each with its own call. Returns the number of all parts. */
async function storeParts(orm: Orm, importId: string, orders: SortedOrders, signal?: AbortSignal) {
  const { part, importId: id } = orderImportParts;
  const rows = await orm.select({ part }).from(orderImportParts).where(eq(id, importId));
  const stored = new Set(rows.map((row) => row.part));
  using progress = startProgress("Sending", orders.count());
  let parts = 0;
  for (const { count: orderCount, json: lines } of divide(orders)) {
    if (!stored.has(parts)) {
      const row = { importId, part: parts, createdAt: DATABASE_TIME, lines };
      await orm.insert(orderImportParts).values(row).onConflictDoNothing();
    }
    progress.advance(orderCount);
    parts += 1;
    signal?.throwIfAborted();
  }
  return parts;
}

/** Divides the orders of an import into parts. `json` is an array of `count` orders. */
function* divide(orders: SortedOrders) {
  const part = (lines: readonly string[]) => ({ count: lines.length, json: `[${lines.join()}]` });
  let lines: string[] = [];
  let characters = 2;
  for (const text of orders.texts()) {
    if (characters + text.length > IMPORT_SIZES.partCharacters) {
      yield part(lines);
      lines = [];
      characters = 2;
    }
    lines.push(text);
    characters += text.length + 1;
  }
  if (lines.length > 0) yield part(lines);
}

/**
 * How the orders of an import differ from the stored orders. Each order is counted once. Of `shipped`
 * ones, which the import ships, other fields may change too.
 */
export type Comparison = Readonly<Record<"new" | "replaced" | "shipped" | "unchanged", number>>;

const isUnchanged = (counts: Comparison) => counts.new + counts.replaced + counts.shipped === 0;

/**
 * An import of at least this share of the stored orders turns off the triggers and rebuilds all
 * segments, which is faster, but then every isolate must read all orders again.
 */
const BULK_SHARE = 1 / 8;

/** The columns of `orders`, in the sequence of `SortedOrders`; the first one is `id`. */
const COLUMNS = Object.values(getTableColumns(ordersTable)).map(({ name }) => name);

/** Returns SQL with what `write` returns for each column, separated by commas. */
const listOf = (write: (name: string, index: number) => string, columns = COLUMNS) =>
  sql.raw(columns.map(write).join());

/** True if the stored order is missing or differs from the imported order. */
const DIFFERS = sql`(${listOf((name) => `orders.${name}`)}) IS NOT (${listOf((name) => `staged.${name}`)})`;

const SHIPS = sql.raw("orders.status = 'pending' AND staged.status = 'shipped'");
const count = (condition: SQL) => sql<number>`count(*) FILTER (WHERE ${condition})`;

/** The figures of `compare`. SQLite takes `id` from the same row as the minimum of `line`. */
const COMPARED = {
  new: count(sql`orders.id IS NULL`),
  replaced: count(sql`orders.id IS NOT NULL AND ${DIFFERS} AND NOT (${SHIPS})`),
  shipped: count(SHIPS),
  unchanged: count(sql`NOT ${DIFFERS}`),
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
  const tables = divide(orders).map(({ json }) => entries(sql`json_each(${json}) AS entry`));
  return compare(database, tables, orders);
}

async function compare({ orm }: StoreDatabase, tables: Iterable<SQL>, { kind }: SortedOrders) {
  const counts = { new: 0, replaced: 0, shipped: 0, unchanged: 0 };
  let refused = { line: Infinity, id: "" };
  for (const staged of tables) {
    const joined = sql`${staged} LEFT JOIN orders ON orders.id = staged.id`;
    const [row] = await orm.select(COMPARED).from(joined);
    if (row === undefined) continue;
    for (const name of Object.keys(counts) as (keyof Comparison)[]) counts[name] += row[name];
    if (row.line !== null && row.line < refused.line) refused = { line: row.line, id: row.id };
  }
  const { line: number, id } = refused;
  if (number === Infinity) return counts;
  throw new ElementError({ kind, number }, `order ${id} has shipped, which cannot be turned back`);
}

/** Returns statements that write the orders that differ to the table `orders`, and delete the parts. */
async function placing(orm: Orm, orders: SortedOrders, parts: readonly SQL[]): Promise<SQL[]> {
  const stored = sql<number>`ifnull(sum(${orderSegments.count}), 0)`;
  const [store] = await orm.select({ count: stored }).from(orderSegments);
  const placed = parts.flatMap((part) => [
    // Not an upsert, which would also fire the trigger that is meant for INSERT OR REPLACE.
    sql`
      UPDATE orders SET ${listOf((name) => `${name} = staged.${name}`, COLUMNS.slice(1))}
      FROM ${stagedOrders(part)}
      WHERE orders.id = staged.id AND ${DIFFERS}`,
    sql`
      INSERT INTO orders (${listOf(String)}) SELECT ${listOf(String)} FROM ${stagedOrders(part)}
      WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.id = staged.id)`,
    sql`DELETE FROM order_import_parts AS parts WHERE ${part}`,
  ]);
  if (orders.count() < (store?.count ?? 0) * BULK_SHARE) return placed;
  // While `order_bulk_change` has a row, the segment triggers are off.
  const begin = sql`INSERT INTO order_bulk_change (id) VALUES (1)`;
  return [begin, ...placed, ...rebuildSegments(), sql`DELETE FROM order_bulk_change`];
}

/** Returns SQL that reads the orders of a part, which a condition selects, as the table `staged`. */
const stagedOrders = (part: SQL) =>
  entries(sql`order_import_parts AS parts, json_each(parts.lines) AS entry WHERE ${part}`);

/** Returns SQL that reads the JSON arrays `entry.value` of `source` as the table `staged`. */
function entries(source: SQL): SQL {
  return sql`(
    SELECT entry.value ->> 0 AS line,
      ${listOf((name, index) => `entry.value ->> ${index + 1} AS ${name}`)}
    FROM ${source}
  ) AS staged`;
}

/** A statement that fails if a part is missing: housekeeping or the same import may delete it. */
function requireParts(importId: string, parts: number): SQL {
  return sql.raw(`
    INSERT INTO order_bulk_change (id) SELECT 2
    WHERE (SELECT count(*) FROM order_import_parts WHERE import_id = '${importId}') <> ${parts}`);
}

/** Statements that replace all segments and the list's version: 10 of D1's 30 seconds for 10 GB. */
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
