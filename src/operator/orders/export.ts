import { open } from "node:fs/promises";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { type SQL, sql } from "drizzle-orm";
import { retry } from "../retry.ts";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { joined, LISTED_FIELDS, OrderWriter, valuesOf } from "../../schema/order-json.ts";
import { orderList, orders } from "../../schema/orders.ts";
import type { StoreDatabase } from "../../store/database.ts";
import { unlessAborted } from "../interruption.ts";
import { replaceFile } from "../replace-file.ts";
import { startProgress } from "./progress.ts";

const LARGEST = sql.raw(String(INT64_MAX));

const CHANGED =
  "the orders changed during the export: run the same command again, or leave out --one-moment";

/** How many segments a page has. D1 limits a row to 2 MB, of which a segment has an eighth. */
const PAGE_SEGMENTS = 3;

const FIELDS = [...LISTED_FIELDS, "status"] as const;
const writer = new OrderWriter(FIELDS, { opening: "{", closing: "}\n" });

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
 * Reads all orders in ascending id, as newline-delimited JSON, segment by segment. Segments with the
 * same version of the list of orders are a consistent snapshot.
 */
export async function* exportPages({ orm }: StoreDatabase) {
  for (let first = INT64_MIN; ;) {
    const firstId = sql.raw(String(first));
    // Segments may have been split or joined since the last page.
    const segments = sql`(
      SELECT max(first_id, ${firstId}) AS first_id, ifnull((
        SELECT min(first_id) - 1 FROM order_segments AS later WHERE later.first_id > segment.first_id
      ), ${LARGEST}) AS last_id FROM order_segments AS segment
      WHERE first_id >= (SELECT max(first_id) FROM order_segments WHERE first_id <= ${firstId})
      ORDER BY segment.first_id LIMIT ${PAGE_SEGMENTS})`;
    const isInSegment = sql`${orders.id} BETWEEN first_id AND last_id`;
    const columns = {
      count: sql<number>`(SELECT count(*) FROM ${orders} WHERE ${isInSegment})`,
      lastId: sql<string>`last_id || ''`,
      values: joined(sql`
        SELECT ${valuesOf(orders, FIELDS)} AS order_values FROM ${orders} WHERE ${isInSegment}
        ORDER BY ${orders.id}`) as SQL<string>,
      listVersion: sql<string>`(SELECT ${orderList.version} FROM ${orderList})`,
    };
    for (const { values, lastId, ...row } of await orm.select(columns).from(segments)) {
      yield { ...row, lines: Buffer.from(writer.json(values)).toString() };
      if (BigInt(lastId) === INT64_MAX) return;
      first = BigInt(lastId) + 1n;
    }
  }
}
