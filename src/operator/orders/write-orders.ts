import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { StoreDatabase } from "../database/database.ts";
import { countOrders, exportPages } from "./export-pages.ts";
import { startProgress } from "./progress.ts";

/** The result of an export. */
export interface Exported {
  readonly count: number;
  /** True if the export is a consistent snapshot, because no order changed while it was written. */
  readonly isOneMoment: boolean;
}

export interface ExportOptions {
  /**
   * If true, the export must be a consistent snapshot: an export during which an order
   * changes starts over, and fails after several attempts.
   */
  readonly oneMoment: boolean;
}

/** Thrown if an order changed during an export with `oneMoment`. */
export class OrdersChangedError extends Error {
  override readonly name = "OrdersChangedError";
}

/**
 * Writes the store's orders to a stream and shows the progress.
 *
 * @throws {OrdersChangedError} if `oneMoment` is true and the version of the list changes.
 */
export async function writeOrders(
  database: StoreDatabase,
  stream: Writable,
  streamOptions: { end: boolean },
  { oneMoment }: ExportOptions,
): Promise<Exported> {
  let exported = 0;
  const versions = new Set<string>();
  // Counts the orders only if stderr is a terminal, because counting takes a second on a remote
  // database.
  const total = process.stderr.isTTY ? await countOrders(database) : undefined;
  // Shows no progress if the orders go to a terminal, because a progress bar would garble them.
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
