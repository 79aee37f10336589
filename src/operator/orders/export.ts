import { open } from "node:fs/promises";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { type SQL, sql } from "drizzle-orm";
import { retry } from "../retry.ts";
import { INT64_MAX, INT64_MIN } from "../../rules/int64.ts";
import { joined, LISTED_FIELDS, OrderWriter, valuesOf } from "../../schema/order-json.ts";
import { cancelledOrders, orderList, orders } from "../../schema/orders.ts";
import type { StoreDatabase } from "../../store/database.ts";
import { unlessAborted } from "../interruption.ts";
import { replaceFile } from "../replace-file.ts";
import { startProgress } from "./progress.ts";

const LARGEST = sql.raw(String(INT64_MAX));

const CHANGED =
  "the orders changed during the export, so it would not be of one moment: run the same command again";

/** How many segments a page has. D1 limits a row to 2 MB, of which a segment has an eighth. */
const PAGE_SEGMENTS = 3;

const FIELDS = [...LISTED_FIELDS, "status"] as const;
const writer = new OrderWriter(FIELDS, { opening: "{", closing: "}\n" });

const cancelled = cancelledOrders;

/**
 * The SQL expression of a cancelled order's line. SQL writes the line, because D1 would return integers
 * above 2^53 rounded. No value needs escaping, because the schema allows no free text.
 */
const CANCELLED_LINE = sql<string>`'{"id":' || ${cancelled.id}
  || coalesce(',"petId":' || ${cancelled.petId}, '')
  || coalesce(',"quantity":' || ${cancelled.quantity}, '')
  || coalesce(',"shipDate":"' || ${cancelled.shipDate} || '"', '')
  || CASE ${cancelled.complete} WHEN 1 THEN ',"complete":true' WHEN 0 THEN ',"complete":false' ELSE '' END
  || ',"status":"cancelled","cancelledAt":"'
  || strftime('%Y-%m-%dT%H:%M:%S', ${cancelled.cancelledAt} / 1000, 'unixepoch')
  || format('.%03dZ"', ${cancelled.cancelledAt} % 1000)
  || coalesce(',"cancelledBy":"' || ${cancelled.cancelledBy} || '"', '')
  || ',"position":' || ${cancelled.position} || '}'`;

/** The cancelled orders of a page. One has up to 290 bytes, and D1 limits a text to 2 MB. */
const PAGE_CANCELLED = 6_500;

/**
 * Exports the store's orders to a file, or to standard output, with `all` the cancelled ones too.
 * Replaces an existing file only when the export is complete. Compresses a file whose name ends in
 * `.gz`.
 *
 * @param oneMoment if true, fails when an order changes. Starts a file over several times first; what
 *   was written to standard output, a pipe or a device cannot be taken back.
 * @returns the number of orders, and whether they are a consistent snapshot because none changed.
 */
export async function exportOrders(
  database: StoreDatabase,
  file: string | undefined,
  { oneMoment, all }: { readonly oneMoment: boolean; readonly all: boolean },
  signal: AbortSignal,
) {
  const write = async (...streams: Writable[]) => {
    const versions = new Set<string>();
    let count = 0;
    using progress = startProgress("Exporting");
    async function* pages(): AsyncGenerator<string> {
      for await (const page of exportPages(database, all)) {
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
export async function* exportPages(database: StoreDatabase, all = false) {
  yield* listedPages(database);
  if (all) yield* cancelledPages(database);
}

/** Reads the cancelled orders in the order of their cancellations. */
async function* cancelledPages({ orm }: StoreDatabase) {
  for (let last = 0, count = PAGE_CANCELLED; count === PAGE_CANCELLED;) {
    const page = sql`(
      SELECT ${cancelled.position} AS position, ${CANCELLED_LINE} AS json FROM ${cancelled}
      WHERE ${cancelled.position} > ${last} ORDER BY ${cancelled.position} LIMIT ${PAGE_CANCELLED})`;
    const columns = {
      count: sql<number>`count(*)`,
      last: sql<number>`ifnull(max(position), 0)`,
      lines: sql<string>`ifnull(group_concat(json, char(10)) || char(10), '')`,
      listVersion: sql<string>`(SELECT ${orderList.version} FROM ${orderList})`,
    };
    for (const row of await orm.select(columns).from(page)) {
      yield row;
      ({ last, count } = row);
    }
  }
}

async function* listedPages({ orm }: StoreDatabase) {
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
