import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { Command } from "commander";
import { createProgram, printJson, UsageError } from "../command-line.ts";
import { storeCommand, type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { exportToFile, exportToStdout } from "./export.ts";
import { importOrders } from "./import.ts";
import { countBytes } from "./progress.ts";
import { addPurgeCommand } from "./purge-command.ts";
import type { Exported, ExportOptions } from "./write-orders.ts";

/** What is read from a file at a time. */
const READ_BYTES = 256 * 1024;

const IMPORT_HELP = `
FILE is newline-delimited JSON, or one JSON array, of orders such as
  {"id":1,"petId":7,"quantity":2,"shipDate":"2026-11-20T08:30:00.000Z","complete":false,"status":"pending"}

  id        needed; an integer of 64 bits, as are petId and quantity
  shipDate  RFC 3339, stored in UTC; milliseconds are the finest
  status    pending (if left out) or shipped

All other fields may be left out, but none may be null or unknown. An order is inserted, or replaces
the one with its id; of duplicates in the file the last wins; the id of a cancelled order places it
anew. A shipped order cannot be turned back. One bad line, and nothing is imported: the message names
the line (in an array, the element), counted from 1. The number printed is that of different orders.
A million orders need half a minute (in a deployed environment minutes), little memory, a temporary
file of their size, and room for them twice in the database, which in a deployed environment answers
nothing else while they are sent and placed.

Examples:
  $ npm run orders -- import orders.ndjson
  $ gunzip -c orders.json.gz | npm run orders -- import -
  $ npm run -s orders -- import orders.ndjson --json`;

const EXPORT_HELP = `
The orders come as newline-delimited JSON in ascending id, with their status, without the cancelled
ones. What is exported imports unchanged. FILE appears when the export is complete.

If orders change while a large store is read, some are exported as they were before and others as
they are after: a warning on stderr says so. With --one-moment the export then starts over, up to four
times, and fails without writing anything if orders changed each time. It needs a temporary file of
the export's size, and writes only when all is read.

Examples:
  $ npm run orders -- export orders.ndjson
  $ npm run orders -- export orders.ndjson --one-moment
  $ npm run -s orders -- export | gzip > orders.ndjson.gz
  $ npm run -s orders -- export orders.ndjson --env production --json`;

/** The command line of `npm run orders`. */
export function ordersProgram(): Command {
  const program = createProgram(
    "npm run orders --",
    "Import and export the orders of the store, and purge the record of cancelled ones.",
  ).addHelpText("after", `\nEach command has a --help of its own, with examples.`);

  storeCommand(program, "import")
    .argument("<file>", "file to read, or - for standard input")
    .description("put orders into the store, all of a file or none")
    .addHelpText("after", IMPORT_HELP)
    .action(async (file: string, options: StoreCommandOptions) => {
      const bytes = await openSource(file);
      const imported = await useDatabase(options, "orders", (database) =>
        importOrders(database, bytes),
      );
      if (options.json) printJson({ imported });
      else process.stdout.write(`Imported ${imported} ${orders(imported)}.\n`);
    });

  storeCommand(program, "export")
    .argument("[file]", "file to write (default: standard output)")
    .description("write the orders of the store")
    .addHelpText("after", EXPORT_HELP)
    .option("--one-moment", "export the store as it was at one moment, or fail", false)
    .action(exportAndPrint);
  addPurgeCommand(program);
  return program;
}

async function exportAndPrint(
  file: string | undefined,
  options: StoreCommandOptions & ExportOptions,
): Promise<void> {
  if (file === undefined && options.json) {
    throw new UsageError("--json needs a FILE: the orders go to standard output");
  }
  const exported = await useDatabase(options, "orders", (database) =>
    file === undefined ? exportToStdout(database, options) : exportToFile(database, file, options),
  );
  warnOfChange(exported);
  if (file === undefined) return;
  if (options.json) printJson({ exported: exported.count });
  else process.stdout.write(`Exported ${exported.count} ${orders(exported.count)} to ${file}.\n`);
}

function warnOfChange({ isOneMoment }: Exported): void {
  if (isOneMoment) return;
  process.stderr.write(
    "warning: orders changed during the export, so it mixes the store before and after those " +
      "changes. Add --one-moment to export the store as it was at one moment.\n",
  );
}

/** Opens an import's file, so that a wrong path is found before the database is touched. */
async function openSource(file: string): Promise<AsyncIterable<Uint8Array>> {
  if (file === "-") return countBytes(process.stdin, undefined);
  const found = await stat(file);
  if (found.isDirectory()) throw new Error(`${file} is a folder`);
  const totalBytes = found.isFile() ? found.size : undefined;
  return countBytes(readFile(file), totalBytes);
}

/** Opens the file when it is first read, by when somebody listens to its errors. */
async function* readFile(file: string): AsyncGenerator<Uint8Array> {
  yield* createReadStream(file, { highWaterMark: READ_BYTES });
}

function orders(count: number): string {
  return count === 1 ? "order" : "orders";
}
