import { createWriteStream } from "node:fs";
import { realpath, rename, rm, stat } from "node:fs/promises";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { StoreDatabase } from "../database/database.ts";
import { countOrders, exportPages } from "./export-pages.ts";
import { startProgress } from "./progress.ts";

/**
 * Exports the store's orders to a file, which appears whole when all is written; until then what
 * stands there stays.
 *
 * @returns how many orders were exported.
 */
export async function exportToFile(database: StoreDatabase, file: string): Promise<number> {
  const existing = await stat(file).catch(() => undefined);
  if (existing?.isDirectory()) throw new Error(`${file} is a folder`);
  // A pipe or device is written to: renaming would replace it.
  if (existing !== undefined && !existing.isFile()) {
    return exportTo(database, createWriteStream(file), { end: true });
  }
  const target = existing === undefined ? file : await realpath(file);
  const temporary = `${target}.${process.pid}.tmp`;
  try {
    const stream = createWriteStream(temporary, { flags: "wx", flush: true });
    const count = await exportTo(database, stream, { end: true });
    await rename(temporary, target);
    return count;
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Exports the store's orders to standard output, which stays open. */
export async function exportToStdout(database: StoreDatabase): Promise<number> {
  return exportTo(database, process.stdout, { end: false });
}

async function exportTo(
  database: StoreDatabase,
  stream: Writable,
  options: { end: boolean },
): Promise<number> {
  let exported = 0;
  // Counting takes a second on a remote database, which only somebody who looks on needs.
  const total = process.stderr.isTTY ? await countOrders(database) : undefined;
  // A bar would tear the orders apart on the same terminal.
  using progress = isTerminal(stream)
    ? undefined
    : startProgress({ doing: "Exporting", unit: "orders", total });
  async function* texts(): AsyncGenerator<string> {
    for await (const { lines, count } of exportPages(database)) {
      yield lines;
      exported += count;
      progress?.advance(count);
    }
  }
  await pipeline(texts, stream, options);
  return exported;
}

function isTerminal(stream: Writable & { readonly isTTY?: boolean }): boolean {
  return stream.isTTY === true;
}
