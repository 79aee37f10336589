import { createHash } from "node:crypto";
import { eq, type SQL, sql } from "drizzle-orm";
import { ORDER_FIELDS, orderBytes, orderImportParts, SEGMENT_BYTES } from "../../schema/orders.ts";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { errorMessage } from "../command-line.ts";
import { NotConfirmedError } from "../confirmation.ts";
import { DATABASE_TIME, databaseTime, type Orm, type StoreDatabase } from "../../store/database.ts";
import {
  compareOrders,
  type Comparison,
  placing,
  stagedOrders,
} from "../../store/orders/placement.ts";
import { startProgress } from "./progress.ts";
import type { SortedOrders } from "./sorted-orders.ts";
import { BadOrdersError } from "./source.ts";

/** How an import divides its orders. Tests set smaller sizes. */
export const IMPORT_SIZES = {
  /** The size limit of a part in bytes of UTF-8. A part is one row; D1 limits a row to 2 MB. */
  partBytes: 1_900_000,
  /** The parts of a batch. D1 allows it 30 seconds; a part has 20,000 orders. */
  partsPerBatch: 4,
  /** The size of a rebuilt segment. It can grow by half before a trigger splits it. */
  segmentBytes: Math.floor((SEGMENT_BYTES * 2) / 3),
  /** Rebuilt segments consist of blocks of this many orders. */
  blockOrders: 64,
};

/** With the cancelled orders of the file that the store lacks, if the file has cancelled orders. */
export type ImportComparison = Comparison & { readonly cancelled?: number };

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
  try {
    orders.requireValidCancellations(await databaseTime(orm));
    const importId = importIdOf(orders);
    const isPart = eq(orderImportParts.importId, importId);
    const parts = await storeParts(orm, importId, orders, signal);
    const comparison = await compareFile(database, orders, parts);
    if (isUnchanged(comparison)) {
      await orm.delete(orderImportParts).where(isPart);
      return comparison;
    }
    await confirm(comparison);
    const { listed } = orders.counts();
    const placed = parts.flatMap((part) => part.placement);
    signal?.throwIfAborted();
    using _ = startProgress("Placing the orders");
    const transaction = [
      // Fails if a part is missing: housekeeping or the same import may delete it.
      fail(sql`WHERE (SELECT count(*) FROM order_import_parts
        WHERE import_id = ${sql.raw(`'${importId}'`)}) <> ${parts.length}`),
      ...((comparison.cancelled ?? 0) > 0 ? [fail(sql`FROM ${ANY_ORDER}`)] : []),
      ...(await asBulkChange(orm, listed, placed)),
    ];
    const isLong = parts.length > IMPORT_SIZES.partsPerBatch;
    // Neither is believed: an answer can be lost, or another import of the same file come first.
    let failure = new Error("the database reported success, but placed no order");
    try {
      await database.transaction(transaction, { isLong });
      if ((await orm.$count(orderImportParts, isPart)) === 0) return comparison;
    } catch (error) {
      failure = error as Error;
    }
    if (isUnchanged(await compareFile(database, orders))) return comparison;
    if (!/_is_one_row/.test(failure.message)) throw failure;
    throw new Error("parts of this import are gone, or the store is no longer empty");
  } catch (cause) {
    if (cause instanceof BadOrdersError || cause instanceof NotConfirmedError) throw cause;
    const stands = "Of the file, all orders are in the store or none: run the same command again";
    throw new Error(`${errorMessage(cause)}. ${stands}`, { cause });
  }
}

/** Returns a digest of all parts, so that imports with equal ids have equal parts. */
function importIdOf(orders: SortedOrders): string {
  const hash = createHash("sha256");
  for (const part of orders.parts(IMPORT_SIZES.partBytes)) hash.update(JSON.stringify(part));
  return hash.digest("hex");
}

/** Orders of one kind that the database can read. */
type Staged = Readonly<{ isCancelled: boolean; source: SQL }>;

/** Stores the parts that the store lacks, each with its own call. Returns all parts. */
async function storeParts(orm: Orm, importId: string, orders: SortedOrders, signal?: AbortSignal) {
  const { part, importId: id } = orderImportParts;
  const rows = await orm.select({ part }).from(orderImportParts).where(eq(id, importId));
  const stored = new Set(rows.map((row) => row.part));
  const { listed, cancelled } = orders.counts();
  using progress = startProgress("Sending", listed + cancelled);
  const parts: (Staged & { readonly placement: readonly SQL[] })[] = [];
  for (const { isCancelled, count, json: lines } of orders.parts(IMPORT_SIZES.partBytes)) {
    const number = parts.length;
    if (!stored.has(number)) {
      const row = { importId, part: number, createdAt: DATABASE_TIME, lines };
      await orm.insert(orderImportParts).values(row).onConflictDoNothing();
    }
    progress.advance(count);
    signal?.throwIfAborted();
    // Without parameters, because a long transaction has none.
    const isPart = sql.raw(`parts.import_id = '${importId}' AND parts.part = ${number}`);
    const source = sql`order_import_parts AS parts, json_each(parts.lines) AS entry WHERE ${isPart}`;
    const writing = isCancelled
      ? [sql`INSERT INTO cancelled_orders (${cancelledColumns}) ${lacking(source)}`]
      : placing(stagedOrders(source));
    const deletion = sql`DELETE FROM order_import_parts AS parts WHERE ${isPart}`;
    parts.push({ isCancelled, source, placement: [...writing, deletion] });
  }
  return parts;
}

const isUnchanged = (counts: ImportComparison) =>
  counts.new + counts.replaced + counts.shipped + (counts.cancelled ?? 0) === 0;

/**
 * Compares the orders of a file with the stored orders, without writing to the database.
 *
 * @param stored the same orders, if the database has them already.
 * @throws {BadOrdersError} as `importOrders` does.
 */
export async function compareFile(
  { orm }: StoreDatabase,
  file: SortedOrders,
  stored?: readonly Staged[],
): Promise<ImportComparison> {
  file.requireValidCancellations(await databaseTime(orm));
  const parts = (): IteratorObject<Staged> =>
    stored?.values() ??
    file.parts(IMPORT_SIZES.partBytes).map(({ isCancelled, json }) => {
      return { isCancelled, source: sql`json_each(${json}) AS entry` };
    });
  const listed = parts().filter((part) => !part.isCancelled);
  const tables = listed.map(({ source }) => stagedOrders(source));
  const { counts, refused, refusedCount } = await compareOrders(orm, tables);
  const faults = refused.map(({ number, id }) =>
    file.locate(number, `order ${id} has shipped, which cannot be turned back`),
  );
  if (refusedCount > 0) throw new BadOrdersError(faults, refusedCount);
  const { cancelled: all } = file.counts();
  if (all === 0) return counts;
  let cancelled = 0;
  for (const { isCancelled, source } of parts()) {
    if (isCancelled) cancelled += await orm.$count(sql`(${lacking(source)})`);
  }
  if (cancelled > 0 && (await orm.$count(ANY_ORDER)) > 0) {
    throw new BadOrdersError([
      'the file has cancelled orders, which only an empty store takes, and this store has orders: name a new store, or leave out the lines with "status":"cancelled"',
    ]);
  }
  return { ...counts, unchanged: counts.unchanged + all - cancelled, cancelled };
}

/** One row, unless the store has no order, cancelled or not. */
const ANY_ORDER = sql`(SELECT 1 FROM orders UNION ALL SELECT 1 FROM cancelled_orders LIMIT 1)`;

/** A statement that fails if the rest of a query that begins with `SELECT 2` has a row. */
const fail = (rest: SQL) => sql`INSERT INTO order_bulk_change (id) SELECT 2 ${rest}`;

/** The columns of a staged cancelled order. */
const CANCELLED_COLUMNS = ["position", "cancelled_at", "cancelled_by", "id", ...ORDER_FIELDS];
const cancelledColumns = sql.raw(CANCELLED_COLUMNS.join());

/** A query of the cancelled orders of a part that the store lacks. */
function lacking(source: SQL): SQL {
  const staged = stagedOrders(source, CANCELLED_COLUMNS);
  return sql`SELECT ${cancelledColumns} FROM ${staged} WHERE NOT EXISTS (
    SELECT ${cancelledColumns} INTERSECT
    SELECT ${cancelledColumns} FROM cancelled_orders AS kept WHERE kept.position = staged.position)`;
}

/**
 * An import of at least this share of the stored orders turns off the triggers and rebuilds all
 * segments, which is faster, but then every isolate must read all orders again.
 */
const BULK_SHARE = 1 / 8;

/** Adds what a bulk change needs to the statements that place orders, if these `listed` are many. */
async function asBulkChange(
  orm: Orm,
  listed: number,
  placed: readonly SQL[],
): Promise<readonly SQL[]> {
  const most = Math.floor(listed / BULK_SHARE);
  // Reads no more orders than this decision needs.
  const stored = await orm.$count(sql`(SELECT 1 FROM orders LIMIT ${most + 1})`);
  if (stored > most) return placed;
  // While `order_bulk_change` has a row, the segment triggers are off.
  const begin = sql`INSERT INTO order_bulk_change (id) VALUES (1)`;
  return [begin, ...placed, ...rebuildSegments(), sql`DELETE FROM order_bulk_change`];
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
