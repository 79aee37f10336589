import { createHash } from "node:crypto";
import { count as countRows, eq, type SQL, sql } from "drizzle-orm";
import {
  cancelledOrders,
  ORDER_FIELDS,
  orderBytes,
  orderImportParts,
  orders as orderTable,
  SEGMENT_BYTES,
} from "../../schema/orders.ts";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { errorMessage } from "../command-line.ts";
import { NotConfirmedError } from "../confirmation.ts";
import { DATABASE_TIME, databaseTime, type Orm, type StoreDatabase } from "../../store/database.ts";
import {
  compareOrders,
  type Comparison,
  listOf,
  placing,
  stagedOrders,
} from "../../store/orders/placement.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import { BadOrdersError, ElementError, Faults } from "./source.ts";

/** How an import divides its orders. Tests set smaller sizes. */
export const IMPORT_SIZES = {
  /** The size limit of a part in ASCII characters. A part is one row; D1 limits a row to 2 MB. */
  partCharacters: 1_900_000,
  /** The parts of a batch. D1 allows it 30 seconds; a part has 20,000 orders. */
  partsPerBatch: 4,
  /** The size of a rebuilt segment. It can grow by half before a trigger splits it. */
  segmentBytes: Math.floor((SEGMENT_BYTES * 2) / 3),
  /** Rebuilt segments consist of blocks of this many orders. */
  blockOrders: 64,
};

/**
 * Imports orders, all or none. Sends only the parts that an earlier, unfinished import of the same
 * orders has not stored.
 *
 * @param signal ends the import, unless the database has begun to write to the table `orders`.
 * @param confirm is called before the table `orders` changes. Throws a `NotConfirmedError` to end.
 * @returns how the orders differed from the stored orders before the import.
 * @throws {BadOrdersError} if orders would make shipped orders pending again, or were cancelled after
 *   the present time; an Error for the operator for every other failure.
 */
export async function importOrders(
  database: StoreDatabase,
  orders: SortedOrders,
  signal?: AbortSignal,
  confirm = async (_comparison: ImportComparison) => {},
): Promise<ImportComparison> {
  const { orm } = database;
  const importId = importIdOf(orders);
  const isPart = eq(orderImportParts.importId, importId);
  try {
    orders.requirePast(await databaseTime(orm));
    const { count, cancelledFrom } = await storeParts(orm, importId, orders, signal);
    // Without parameters, because a long transaction has none.
    const all = Array.from({ length: count }, (_, part) =>
      sql.raw(`parts.import_id = '${importId}' AND parts.part = ${part}`),
    );
    const parts = all.slice(0, cancelledFrom);
    const cancelled = all.slice(cancelledFrom).map((part) => stagedCancelled(sourceOf(part)));
    const staged = { orders: parts.map((part) => stagedOrders(sourceOf(part))), cancelled };
    const comparison = await compare(database, staged, orders);
    if (isUnchanged(comparison)) {
      await orm.delete(orderImportParts).where(isPart);
      return comparison;
    }
    await confirm(comparison);
    const imported = orders.count();
    signal?.throwIfAborted();
    using _ = startProgress("Placing the orders");
    const statements = await placingParts(orm, imported, parts);
    const options = { isLong: count > IMPORT_SIZES.partsPerBatch };
    const transaction = [
      requireParts(importId, count),
      ...((comparison.cancelled ?? 0) > 0 ? placingCancelled(cancelled) : []),
      ...statements,
      ...all.slice(cancelledFrom).map(deletionOf),
    ];
    const failure = await database.transaction(transaction, options).then(
      () => undefined,
      (error: Error) =>
        /_is_one_row/.test(error.message)
          ? new Error("parts of this import are gone, or the store is no longer empty")
          : error,
    );
    // Neither is believed: an answer can be lost, or another import of the same file come first.
    const isPlaced = failure === undefined && (await orm.$count(orderImportParts, isPart)) === 0;
    if (isPlaced || isUnchanged(await compareFile(database, orders))) return comparison;
    throw failure ?? new Error("the database reported success, but placed no order");
  } catch (cause) {
    const isRefused = [BadOrdersError, NotConfirmedError, NotEmptyError].some(
      (kind) => cause instanceof kind,
    );
    if (isRefused) throw cause;
    const stands = "Of the file, all orders are in the store or none: run the same command again";
    throw new Error(`${errorMessage(cause)}. ${stands}`, { cause });
  }
}

/** Returns a digest of orders and part size, so that imports with equal ids have equal parts. */
function importIdOf(orders: SortedOrders): string {
  const hash = createHash("sha256").update(String(IMPORT_SIZES.partCharacters));
  for (const text of orders.texts()) hash.update(text);
  for (const text of orders.cancelledTexts()) hash.update(`cancelled${text}`);
  return hash.digest("hex");
}

/**
 * Stores the parts that the store lacks, each with its own call. Returns the number of all parts, and
 * the first one of cancelled orders.
 */
async function storeParts(orm: Orm, importId: string, orders: SortedOrders, signal?: AbortSignal) {
  const { part, importId: id } = orderImportParts;
  const rows = await orm.select({ part }).from(orderImportParts).where(eq(id, importId));
  const stored = new Set(rows.map((row) => row.part));
  using progress = startProgress("Sending", orders.count() + orders.cancelledCount());
  let parts = 0;
  let cancelledFrom = 0;
  for (const { count: orderCount, json: lines, isCancelled } of divideAll(orders)) {
    if (!stored.has(parts)) {
      const row = { importId, part: parts, createdAt: DATABASE_TIME, lines };
      await orm.insert(orderImportParts).values(row).onConflictDoNothing();
    }
    progress.advance(orderCount);
    parts += 1;
    if (!isCancelled) cancelledFrom = parts;
    signal?.throwIfAborted();
  }
  return { count: parts, cancelledFrom };
}

function* divideAll(orders: SortedOrders) {
  for (const part of divide(orders.texts())) yield { ...part, isCancelled: false };
  for (const part of divide(orders.cancelledTexts())) yield { ...part, isCancelled: true };
}

/** Divides the orders of an import into parts. `json` is an array of `count` orders. */
function* divide(texts: Iterable<string>) {
  const part = (lines: readonly string[]) => ({ count: lines.length, json: `[${lines.join()}]` });
  let lines: string[] = [];
  let characters = 2;
  for (const text of texts) {
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

/** With the cancelled orders of the file that the store lacks, if the file has cancelled orders. */
export type ImportComparison = Comparison & { readonly cancelled?: number };

const isUnchanged = (counts: ImportComparison) =>
  counts.new + counts.replaced + counts.shipped + (counts.cancelled ?? 0) === 0;

/**
 * An import of at least this share of the stored orders turns off the triggers and rebuilds all
 * segments, which is faster, but then every isolate must read all orders again.
 */
const BULK_SHARE = 1 / 8;

/**
 * Compares the orders of a file with the stored orders, without writing to the database.
 *
 * @throws {BadOrdersError} as `importOrders` does.
 */
export async function compareFile(
  database: StoreDatabase,
  orders: SortedOrders,
): Promise<ImportComparison> {
  orders.requirePast(await databaseTime(database.orm));
  const source = ({ json }: { readonly json: string }) => sql`json_each(${json}) AS entry`;
  const tables = divide(orders.texts()).map((part) => stagedOrders(source(part)));
  const cancelled = divide(orders.cancelledTexts()).map((part) => stagedCancelled(source(part)));
  return compare(database, { orders: tables, cancelled }, orders);
}

async function compare(
  { orm }: StoreDatabase,
  staged: Readonly<Record<"orders" | "cancelled", Iterable<SQL>>>,
  file: SortedOrders,
): Promise<ImportComparison> {
  const { counts, refused, refusedCount } = await compareOrders(orm, staged.orders);
  const faults = refused.map(({ number, id }) => {
    const fault = `order ${id} has shipped, which cannot be turned back`;
    return new ElementError({ kind: file.kind, number }, fault);
  });
  new Faults(faults, refusedCount).throwIfAny();
  if (file.cancelledCount() === 0) return counts;
  const { cancelled, unchanged } = await compareCancelled(orm, staged.cancelled);
  if (cancelled > 0) await requireEmptyStore(orm);
  return { ...counts, unchanged: counts.unchanged + unchanged, cancelled };
}

/** Returns statements that write the orders that differ to the table `orders`, and delete the parts. */
async function placingParts(orm: Orm, imported: number, parts: readonly SQL[]): Promise<SQL[]> {
  const placed = parts.flatMap((part) => [
    ...placing(stagedOrders(sourceOf(part))),
    deletionOf(part),
  ]);
  const most = Math.floor(imported / BULK_SHARE);
  // Reads no more orders than this decision needs.
  const stored = sql`(SELECT 1 FROM orders LIMIT ${most + 1})`;
  const [store] = await orm.select({ orders: countRows() }).from(stored);
  if ((store?.orders ?? 0) > most) return placed;
  // While `order_bulk_change` has a row, the segment triggers are off.
  const begin = sql`INSERT INTO order_bulk_change (id) VALUES (1)`;
  return [begin, ...placed, ...rebuildSegments(), sql`DELETE FROM order_bulk_change`];
}

/** Returns the source of the orders of a part, which a condition selects. */
const sourceOf = (part: SQL) =>
  sql`order_import_parts AS parts, json_each(parts.lines) AS entry WHERE ${part}`;

const deletionOf = (part: SQL) => sql`DELETE FROM order_import_parts AS parts WHERE ${part}`;

/** A statement that fails if a part is missing: housekeeping or the same import may delete it. */
function requireParts(importId: string, parts: number): SQL {
  return sql.raw(`
    INSERT INTO order_bulk_change (id) SELECT 2
    WHERE (SELECT count(*) FROM order_import_parts WHERE import_id = '${importId}') <> ${parts}`);
}

/**
 * Statements that replace all segments and the list's version. Blocks are found by their ids alone,
 * then measured: a window over all orders would take six times as long.
 */
function rebuildSegments(): SQL[] {
  const { segmentBytes, blockOrders } = IMPORT_SIZES;
  return [
    sql`DELETE FROM order_segments`,
    sql`
      INSERT INTO order_segments (first_id, version, bytes)
      WITH RECURSIVE block (first_id, next_id) AS (
        SELECT ${sql.raw(String(INT64_MIN))},
          (SELECT id FROM orders ORDER BY id LIMIT 1 OFFSET ${blockOrders})
        UNION ALL
        SELECT next_id, (
          SELECT id FROM orders WHERE id >= block.next_id ORDER BY id LIMIT 1 OFFSET ${blockOrders})
        FROM block WHERE next_id IS NOT NULL
      ), measured AS MATERIALIZED (
        SELECT first_id, (
          SELECT ifnull(sum(${orderBytes()}), 0) FROM orders
          WHERE id BETWEEN first_id AND ifnull(next_id - 1, ${sql.raw(String(INT64_MAX))})) AS bytes
        FROM block
      )
      SELECT min(first_id), lower(hex(randomblob(16))), sum(bytes) FROM (
        SELECT first_id, bytes,
          (sum(bytes) OVER (ORDER BY first_id) - bytes) / ${segmentBytes} AS segment
        FROM measured
      ) GROUP BY segment`,
    sql`UPDATE order_list SET version = lower(hex(randomblob(16)))`,
  ];
}

/** The columns of a staged cancelled order. */
const CANCELLED_COLUMNS = ["position", "cancelled_at", "cancelled_by", "id", ...ORDER_FIELDS];

const stagedCancelled = (source: SQL) => stagedOrders(source, CANCELLED_COLUMNS);

/** Counts the staged cancelled orders that the store lacks, and those that it has. */
async function compareCancelled(orm: Orm, tables: Iterable<SQL>) {
  const counts = { cancelled: 0, unchanged: 0 };
  for (const staged of tables) {
    const isKept = sql`kept.position = staged.position
      AND (${listOf((name) => `kept.${name}`, CANCELLED_COLUMNS)}) IS (${listOf((name) => `staged.${name}`, CANCELLED_COLUMNS)})`;
    const columns = { all: sql<number>`count(*)`, kept: sql<number>`count(kept.position)` };
    const source = sql`${staged} LEFT JOIN cancelled_orders AS kept ON ${isKept}`;
    const [{ all, kept } = { all: 0, kept: 0 }] = await orm.select(columns).from(source);
    counts.unchanged += kept;
    counts.cancelled += all - kept;
  }
  return counts;
}

const IS_NOT_EMPTY = sql`(EXISTS (SELECT 1 FROM ${orderTable}) OR EXISTS (SELECT 1 FROM ${cancelledOrders}))`;

class NotEmptyError extends Error {}

/** @throws {NotEmptyError} if the store has orders, cancelled or not. */
async function requireEmptyStore(orm: Orm): Promise<void> {
  const [row] = await orm.select({ is: sql<number>`${IS_NOT_EMPTY}` }).from(sql`(SELECT 1)`);
  if (row?.is !== 1) return;
  throw new NotEmptyError(
    'the file has cancelled orders, which only an empty store takes, and this store has orders: name a new store, or leave out the lines with "status":"cancelled"',
  );
}

/** Statements that store the cancelled orders of parts, and fail if the store has orders. */
function placingCancelled(tables: readonly SQL[]): SQL[] {
  const columns = sql.raw(CANCELLED_COLUMNS.join());
  return [
    sql`INSERT INTO order_bulk_change (id) SELECT 2 WHERE ${IS_NOT_EMPTY}`,
    ...tables.map(
      (staged) => sql`INSERT INTO cancelled_orders (${columns}) SELECT ${columns} FROM ${staged}`,
    ),
  ];
}
