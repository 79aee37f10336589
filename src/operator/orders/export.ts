import { open } from "node:fs/promises";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { count as countRows, gte, sql } from "drizzle-orm";
import pRetry from "p-retry";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { orderList, orders } from "../../schema/orders.ts";
import type { StoreDatabase } from "../database/database.ts";
import { replaceFile } from "../replace-file.ts";
import { startProgress } from "./progress.ts";

/** How many times an export with `oneMoment` is retried, after pauses of 0.1 to 0.8 seconds. */
const RESTARTS = 4;

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

interface Exported {
  readonly count: number;
  /** True if the export is a consistent snapshot, because no order changed while it was written. */
  readonly isOneMoment: boolean;
}

class OrdersChangedError extends Error {
  constructor() {
    super(
      "the orders changed during the export: run the same command again when fewer orders change, or " +
        "leave out --one-moment",
    );
  }
}

/**
 * Exports the store's orders to a file, or to standard output. Replaces an existing file only when
 * the export is complete. Compresses a file whose name ends in `.gz`.
 *
 * @param oneMoment if true, fails when an order changes. Starts a file over several times first; what
 *   was written to standard output, a pipe or a device cannot be taken back.
 */
export async function exportOrders(
  database: StoreDatabase,
  file: string | undefined,
  oneMoment: boolean,
  signal: AbortSignal,
): Promise<Exported> {
  const write = (...streams: Writable[]) => writeOrders(database, streams, oneMoment, signal);
  if (file === undefined) return write(process.stdout);
  return replaceFile(file, (target) => {
    const isNewFile = target !== file;
    const zip = file.toLowerCase().endsWith(".gz") ? [createGzip] : [];
    const attempt = async () => {
      // Opened first: a stream that fails before it opened its file would create the file later.
      const handle = await open(target, "w");
      return write(
        ...zip.map((create) => create()),
        handle.createWriteStream({ flush: isNewFile }),
      );
    };
    return pRetry(attempt, {
      retries: isNewFile ? RESTARTS : 0,
      minTimeout: 100,
      shouldRetry: ({ error }) => error instanceof OrdersChangedError,
    });
  });
}

/** @throws {OrdersChangedError} if `oneMoment` is true and the version of the list changes. */
async function writeOrders(
  database: StoreDatabase,
  streams: readonly Writable[],
  oneMoment: boolean,
  signal: AbortSignal,
): Promise<Exported> {
  let exported = 0;
  const versions = new Set<string>();
  using progress = startProgress("Exporting");
  async function* pages(): AsyncGenerator<string> {
    for await (const { lines, count, listVersion } of exportPages(database)) {
      versions.add(listVersion);
      if (oneMoment && versions.size > 1) throw new OrdersChangedError();
      yield lines;
      exported += count;
      progress.advance(count);
    }
  }
  await pipeline([pages, ...streams] as never, { signal });
  return { count: exported, isOneMoment: versions.size === 1 };
}

interface Page {
  readonly count: number;
  readonly lines: string;
  readonly listVersion: string;
}

/**
 * Reads all orders in ascending id, as newline-delimited JSON, with a query for each page.
 * Pages with the same version of the list of orders are a consistent snapshot.
 */
export async function* exportPages({ orm }: StoreDatabase): AsyncGenerator<Page> {
  const listVersion = orm.select({ version: orderList.version }).from(orderList);
  for (let firstId = INT64_MIN; ;) {
    const page = orm
      .select({ id: sql`${orders.id}`.as("id"), json: LINE.as("json") })
      .from(orders)
      .where(gte(orders.id, firstId))
      .orderBy(orders.id)
      .limit(PAGE_ORDERS)
      .as("page");
    const [row] = await orm
      .select({
        count: countRows(),
        last: sql<string | null>`max(${page.id}) || ''`,
        lines: sql<string>`ifnull(group_concat(${page.json}, char(10)) || char(10), '')`,
        listVersion: sql<string>`${listVersion}`,
      })
      .from(page);
    if (row === undefined) return;
    yield row;
    const lastId = row.last === null ? INT64_MAX : BigInt(row.last);
    if (row.count < PAGE_ORDERS || lastId === INT64_MAX) return;
    firstId = lastId + 1n;
  }
}
