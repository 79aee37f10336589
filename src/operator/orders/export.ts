import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import pRetry from "p-retry";
import type { StoreDatabase } from "../database/database.ts";
import { replaceFile } from "../replace-file.ts";
import {
  type Exported,
  type ExportOptions,
  OrdersChangedError,
  writeOrders,
} from "./write-orders.ts";

/** How often an export with `oneMoment` is retried, after pauses of 0.1 to 0.8 seconds. */
const RESTARTS = 4;
const FIRST_PAUSE_MS = 100;

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
    return exportToStream(database, () => createWriteStream(file), { end: true }, options);
  }
  return replaceFile(file, (temporary) => writeFile(database, temporary, options));
}

/** Exports the store's orders to standard output, without closing it. */
export async function exportToStdout(
  database: StoreDatabase,
  options: ExportOptions,
): Promise<Exported> {
  return exportToStream(database, () => process.stdout, { end: false }, options);
}

async function exportToStream(
  database: StoreDatabase,
  open: () => Writable,
  streamOptions: { end: boolean },
  { oneMoment }: ExportOptions,
): Promise<Exported> {
  if (!oneMoment) return writeOrders(database, open(), streamOptions, { oneMoment });
  const folder = await mkdtemp(join(tmpdir(), "store-orders-"));
  try {
    const file = join(folder, "export.ndjson");
    const exported = await writeFile(database, file, { oneMoment });
    await pipeline(createReadStream(file), open(), streamOptions);
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
  try {
    return await pRetry(
      async () => {
        const stream = createWriteStream(file, { flags: "w", flush: true });
        return writeOrders(database, stream, { end: true }, options);
      },
      {
        retries: RESTARTS,
        minTimeout: FIRST_PAUSE_MS,
        shouldRetry: ({ error }) => error instanceof OrdersChangedError,
      },
    );
  } catch (error) {
    if (!(error instanceof OrdersChangedError)) throw error;
    throw new Error(
      `the orders changed during each of ${RESTARTS + 1} attempts, so nothing was exported: try again when ` +
        "fewer orders change, or leave out --one-moment",
      { cause: error },
    );
  }
}
