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

/** Bytes read from a file at a time. */
const READ_BYTES = 256 * 1024;

const IMPORT_HELP = `
FILE is newline-delimited JSON or one JSON array. An order looks like this:
  {"id":1,"petId":7,"quantity":2,"shipDate":"2026-11-20T08:30:00.000Z","complete":false,"status":"pending"}

  id        required; an integer of 64 bits, like petId and quantity
  shipDate  RFC 3339, no finer than milliseconds, stored in UTC
  status    pending (the default) or shipped

The other fields are optional. null and unknown fields are errors. An order is inserted or replaces
the order with the same id. The last of duplicates in the file wins. The id of a cancelled order
places it anew. A shipped order cannot be turned back. If one line is bad, nothing is imported, and
the message names the line (in an array, the element), counted from 1. The command prints the number
of different orders.

A million orders take half a minute, or minutes in a deployed environment. The import needs little
memory, but a temporary file as large as the orders and twice their room in the database. While orders
are sent and placed, a deployed service lists and cancels none; keys are in another database.

Examples:
  $ npm run orders -- import orders.ndjson
  $ gunzip -c orders.json.gz | npm run orders -- import -
  $ npm run -s orders -- import orders.ndjson --json`;

const EXPORT_HELP = `
The export is newline-delimited JSON in ascending id, with the status, without cancelled orders. It
can be imported unchanged. FILE appears when the export is complete.

If orders change while a large store is read, the export mixes orders from before and after the
change, and a warning on stderr says so. With --one-moment the export then starts over, up to four
times. If orders changed each time, it fails and writes nothing. It needs a temporary file of the
export's size and writes only when everything has been read.

Examples:
  $ npm run orders -- export orders.ndjson
  $ npm run orders -- export orders.ndjson --one-moment
  $ npm run -s orders -- export | gzip > orders.ndjson.gz
  $ npm run -s orders -- export orders.ndjson --env production --json`;

/** The command line of `npm run orders`. */
export function ordersProgram(): Command {
  const program = createProgram(
    "npm run orders --",
    "Import and export the orders of the store, and purge cancelled orders.",
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
      else process.stdout.write(`Imported ${formatCount(imported)}.\n`);
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
  else process.stdout.write(`Exported ${formatCount(exported.count)} to ${file}.\n`);
}

function warnOfChange({ isOneMoment }: Exported): void {
  if (isOneMoment) return;
  process.stderr.write(
    "warning: orders changed during the export, so it mixes the store before and after those " +
      "changes. Add --one-moment to export the store as it was at one moment.\n",
  );
}

/** Checks the path of an import before the database is touched, and returns the file's bytes. */
async function openSource(file: string): Promise<AsyncIterable<Uint8Array>> {
  if (file === "-") return countBytes(process.stdin, undefined);
  const found = await stat(file);
  if (found.isDirectory()) throw new Error(`${file} is a folder`);
  const totalBytes = found.isFile() ? found.size : undefined;
  return countBytes(readFile(file), totalBytes);
}

/** Opens the file only when it is first read, because earlier its errors have no listener. */
async function* readFile(file: string): AsyncGenerator<Uint8Array> {
  yield* createReadStream(file, { highWaterMark: READ_BYTES });
}

function formatCount(count: number): string {
  return `${count} ${count === 1 ? "order" : "orders"}`;
}
