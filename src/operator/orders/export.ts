import { open } from "node:fs/promises";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { eq, gt, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { retry } from "../retry.ts";
import { cancelledOrders, orderList, orders } from "../../schema/orders.ts";
import type { Orm, StoreDatabase } from "../../store/database.ts";
import { exactColumns } from "../../store/orders/find-order.ts";
import { unlessAborted } from "../interruption.ts";
import { replaceFile } from "../replace-file.ts";
import { startProgress } from "./progress.ts";

const CHANGED =
  "the orders changed during the export, so it would not be of one moment: run the same command again";

/** The orders of a page. A cancelled one has up to 290 bytes. */
const PAGE_ORDERS = 7_500;

/**
 * Exports the store's orders to a file, or for `-` to standard output, with `all` the cancelled ones too.
 * Replaces an existing file only when the export is complete. Compresses a file whose name ends in
 * `.gz`.
 *
 * @param oneMoment if true, fails when an order changes. Starts a file over several times first; what
 *   was written to standard output, a pipe or a device cannot be taken back.
 * @returns the number of orders, and whether they are a consistent snapshot because none changed.
 */
export async function exportOrders(
  database: StoreDatabase,
  file: string,
  { oneMoment, all }: { readonly oneMoment: boolean; readonly all: boolean },
  signal: AbortSignal,
) {
  const write = async (...streams: Writable[]) => {
    const versions = new Set<unknown>();
    let count = 0;
    using progress = startProgress("Exporting");
    async function* pages(): AsyncGenerator<string> {
      for await (const page of exportPages(database, all)) {
        versions.add(page.version);
        if (oneMoment && versions.size > 1) throw new Error(CHANGED);
        yield page.lines;
        count += page.count;
        progress.advance(page.count);
      }
    }
    await pipeline([pages, ...streams] as never, { signal });
    return { count, isOneMoment: versions.size === 1 };
  };
  if (file === "-") return unlessAborted(signal, () => write(process.stdout));
  return replaceFile(file, (target) => {
    const isNewFile = target !== file;
    const attempt = async () => {
      // Opened first: a stream that fails before it opened its file would create the file later.
      const handle = await open(target, "w");
      const zip = file.toLowerCase().endsWith(".gz") ? [createGzip()] : [];
      return write(...zip, handle.createWriteStream({ flush: isNewFile }));
    };
    if (!isNewFile) return unlessAborted(signal, attempt);
    const shouldRetry = ({ error }: { readonly error: Error }) => error.message === CHANGED;
    return retry(attempt, { retries: 4, minTimeout: 100, shouldRetry });
  });
}

/**
 * Reads all orders in ascending id, and with `all` the cancelled ones in the order of their
 * cancellations, as newline-delimited JSON. Pages with the same version of the list of orders are a
 * consistent snapshot.
 */
export async function* exportPages({ orm }: StoreDatabase, all = false) {
  yield* pagesOf(orm, orders, orders.id, { status: orders.status });
  const { cancelledAt, cancelledBy, position } = cancelledOrders;
  const columns = { status: sql`'cancelled'`, cancelledAt, cancelledBy, position };
  if (all) yield* pagesOf(orm, cancelledOrders, position, columns);
}

/** @param key a unique column, which is also selected under its name. */
async function* pagesOf(
  orm: Orm,
  table: typeof orders | typeof cancelledOrders,
  key: SQLiteColumn,
  columns: Readonly<Record<string, SQLiteColumn | SQL>>,
) {
  const selected = { ...exactColumns(table), ...columns, version: orderList.version };
  for (let last: unknown; last !== null;) {
    const after = last === undefined ? sql`TRUE` : gt(key, last);
    // A page without orders has the version too.
    const page = orm.select(selected).from(orderList).leftJoin(table, after);
    const rows = await page.where(eq(orderList.id, 1)).orderBy(key).limit(PAGE_ORDERS);
    const found = rows.filter(({ id }) => id !== null);
    const lines = found.map((row) => lineOf({ ...row, version: null }));
    yield { lines: lines.join(""), count: lines.length, version: rows[0]?.version };
    last = (rows.at(-1) as Record<string, unknown> | undefined)?.[key.name] ?? null;
  }
}

/** Writes an order as a line of JSON, without the fields that are `null`. */
export function lineOf(order: object): string {
  const fields = Object.entries(order).flatMap(([name, value]) => {
    if (value === null) return [];
    return [`"${name}":${typeof value === "bigint" ? value : JSON.stringify(value)}`];
  });
  return `{${fields.join()}}\n`;
}
