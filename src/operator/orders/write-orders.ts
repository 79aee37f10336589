import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { StoreDatabase } from "../database/database.ts";
import { countOrders, exportPages } from "./export-pages.ts";
import { startProgress } from "./progress.ts";

/** The result of an export. */
export interface Exported {
  readonly count: number;
  /** True if no order changed during the export. Otherwise it may mix several moments. */
  readonly isOneMoment: boolean;
}

export interface ExportOptions {
  /** Starts over if an order changes meanwhile, and fails rather than mix several moments. */
  readonly oneMoment: boolean;
}

/** The orders changed while they were exported. */
export class OrdersChangedError extends Error {
  override readonly name = "OrdersChangedError";
}

/**
 * Writes the store's orders to a stream and shows the progress.
 *
 * @throws {OrdersChangedError} with `oneMoment`, as soon as a page shows a change.
 */
export async function writeOrders(
  database: StoreDatabase,
  stream: Writable,
  streamOptions: { end: boolean },
  { oneMoment }: ExportOptions,
): Promise<Exported> {
  let exported = 0;
  const versions = new Set<string>();
  // Counting takes a second on a remote database, so count only if somebody watches.
  const total = process.stderr.isTTY ? await countOrders(database) : undefined;
  // A bar would break up the orders on the same terminal.
  using progress = isTerminal(stream)
    ? undefined
    : startProgress({ doing: "Exporting", unit: "orders", total });
  async function* pages(): AsyncGenerator<string> {
    for await (const { lines, count, listVersion } of exportPages(database)) {
      versions.add(listVersion);
      if (oneMoment && versions.size > 1) throw new OrdersChangedError();
      yield lines;
      exported += count;
      progress?.advance(count);
    }
  }
  await pipeline(pages, stream, streamOptions);
  return { count: exported, isOneMoment: versions.size === 1 };
}

function isTerminal(stream: Writable & { readonly isTTY?: boolean }): boolean {
  return stream.isTTY === true;
}
