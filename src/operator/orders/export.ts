import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import pRetry from "p-retry";
import type { StoreDatabase } from "../database/database.ts";
import { replaceFile } from "../replace-file.ts";
import { countOrders, exportPages } from "./export-pages.ts";
import { startProgress } from "./progress.ts";

/** How often an export with `oneMoment` is retried, after pauses of 0.1 to 0.8 seconds. */
const RESTARTS = 4;
const FIRST_PAUSE_MS = 100;

/** The result of an export. */
interface Exported {
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
class OrdersChangedError extends Error {
  override readonly name = "OrdersChangedError";
}

/**
 * Exports the store's orders to a file. Replaces an existing file only when the export is complete.
 * Until then, a temporary file in the same folder holds the exported orders.
 */
export async function exportToFile(
  database: StoreDatabase,
  file: string,
  options: ExportOptions,
): Promise<Exported> {
  const existing = await stat(file).catch(() => undefined);
  // Writes directly to a pipe or device, because renaming a temporary file would replace the pipe
  // or device by a file.
  if (existing !== undefined && !existing.isFile() && !existing.isDirectory()) {
    return exportToStream(database, () => createWriteStream(file), options);
  }
  return replaceFile(file, (temporary) => writeFile(database, temporary, options));
}

/** Exports the store's orders to standard output. */
export function exportToStdout(database: StoreDatabase, options: ExportOptions): Promise<Exported> {
  return exportToStream(database, () => process.stdout, options);
}

async function exportToStream(
  database: StoreDatabase,
  open: () => Writable,
  options: ExportOptions,
): Promise<Exported> {
  if (!options.oneMoment) return writeOrders(database, open(), options);
  const folder = await mkdtemp(join(tmpdir(), "store-orders-"));
  try {
    const file = join(folder, "export.ndjson");
    const exported = await writeFile(database, file, options);
    await pipeline(createReadStream(file), open());
    return exported;
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Writes the orders to a file. With `oneMoment`, starts over if an order changes. */
async function writeFile(
  database: StoreDatabase,
  file: string,
  options: ExportOptions,
): Promise<Exported> {
  const attempt = () => writeOrders(database, createWriteStream(file, { flush: true }), options);
  try {
    return await pRetry(attempt, {
      retries: RESTARTS,
      minTimeout: FIRST_PAUSE_MS,
      shouldRetry: ({ error }) => error instanceof OrdersChangedError,
    });
  } catch (error) {
    if (!(error instanceof OrdersChangedError)) throw error;
    throw new Error(
      `the orders changed during each of ${RESTARTS + 1} attempts, so nothing was exported: try again when ` +
        "fewer orders change, or leave out --one-moment",
      { cause: error },
    );
  }
}

/**
 * Writes the store's orders to a stream and shows the progress.
 *
 * @throws {OrdersChangedError} if `oneMoment` is true and the version of the list changes.
 */
async function writeOrders(
  database: StoreDatabase,
  stream: Writable & { readonly isTTY?: boolean },
  { oneMoment }: ExportOptions,
): Promise<Exported> {
  let exported = 0;
  const versions = new Set<string>();
  // Counts the orders only if stderr is a terminal, because counting takes a second on a remote
  // database.
  const total = process.stderr.isTTY ? await countOrders(database) : undefined;
  // Shows no progress if the orders go to a terminal, because a progress bar would garble them.
  using progress = stream.isTTY
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
  await pipeline(pages, stream);
  return { count: exported, isOneMoment: versions.size === 1 };
}
