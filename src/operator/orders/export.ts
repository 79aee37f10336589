import { open } from "node:fs/promises";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { count as countRows, gte, sql } from "drizzle-orm";
import { retry } from "../retry.ts";
import { INT64_MIN } from "../../rules/int64.ts";
import { orderList, orders } from "../../schema/orders.ts";
import type { StoreDatabase } from "../../store/database.ts";
import { unlessAborted } from "../interruption.ts";
import { replaceFile } from "../replace-file.ts";
import { startProgress } from "./progress.ts";

const CHANGED =
  "the orders changed during the export: run the same command again, or leave out --one-moment";

/**
 * An SQL expression for a line of an export. SQL writes the line, because D1 would return integers
 * above 2^53 rounded. No value needs escaping, because the schema allows no free text.
 */
const LINE = sql<string>`'{"id":' || ${orders.id}
  || coalesce(',"petId":' || ${orders.petId}, '')
  || coalesce(',"quantity":' || ${orders.quantity}, '')
  || coalesce(',"shipDate":"' || ${orders.shipDate} || '"', '')
  || CASE ${orders.complete} WHEN 1 THEN ',"complete":true' WHEN 0 THEN ',"complete":false' ELSE '' END
  || ',"status":"' || ${orders.status} || '"}'`;

/** The number of orders in a page. An order has up to 163 bytes, and D1 limits a text to 2 MB. */
const PAGE_ORDERS = 7_500;

/**
 * Exports the store's orders to a file, or to standard output. Replaces an existing file only when
 * the export is complete. Compresses a file whose name ends in `.gz`.
 *
 * @param oneMoment if true, fails when an order changes. Starts a file over several times first; what
 *   was written to standard output, a pipe or a device cannot be taken back.
 * @returns the number of orders, and whether they are a consistent snapshot because none changed.
 */
export async function exportOrders(
  database: StoreDatabase,
  file: string | undefined,
  oneMoment: boolean,
  signal: AbortSignal,
) {
  const write = async (...streams: Writable[]) => {
    const versions = new Set<string>();
    let count = 0;
    using progress = startProgress("Exporting");
    async function* pages(): AsyncGenerator<string> {
      for await (const page of exportPages(database)) {
        versions.add(page.listVersion);
        if (oneMoment && versions.size > 1) throw new Error(CHANGED);
        yield page.lines;
        count += page.count;
        progress.advance(page.count);
      }
    }
    await pipeline([pages, ...streams] as never, { signal });
    return { count, isOneMoment: versions.size === 1 };
  };
  if (file === undefined) return unlessAborted(signal, () => write(process.stdout));
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
 * Reads all orders in ascending id, as newline-delimited JSON, with a query for each page.
 * Pages with the same version of the list of orders are a consistent snapshot.
 */
export async function* exportPages({ orm }: StoreDatabase) {
  for (let firstId = INT64_MIN; ;) {
    const page = sql`(
      SELECT ${orders.id} AS id, ${LINE} AS json FROM ${orders}
      WHERE ${gte(orders.id, firstId)} ORDER BY ${orders.id} LIMIT ${PAGE_ORDERS})`;
    const columns = {
      count: countRows(),
      last: sql<string | null>`max(id) || ''`,
      lines: sql<string>`ifnull(group_concat(json, char(10)) || char(10), '')`,
      listVersion: sql<string>`(SELECT ${orderList.version} FROM ${orderList})`,
    };
    for (const row of await orm.select(columns).from(page)) {
      yield row;
      if (row.last === null || row.count < PAGE_ORDERS) return;
      firstId = BigInt(row.last) + 1n;
    }
  }
}
