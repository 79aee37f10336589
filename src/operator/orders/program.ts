import { type Command, InvalidArgumentError } from "commander";
import { parseInt64 } from "../../rules/int64.ts";
import type { ImportComparison } from "./import.ts";
import { parseFile } from "../arguments.ts";
import { createProgram, printData, printJson, UsageError } from "../command-line.ts";
import { requireConfirmation, yesOption } from "../confirmation.ts";
import { hasStore, storeCommand, type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { unlessAborted, withInterruption } from "../interruption.ts";
import { formatCount, formatNumber, formatRecord } from "../terminal-text.ts";

type OrderOptions = StoreCommandOptions &
  Readonly<Record<"dryRun" | "yes" | "oneMoment" | "all", boolean>>;

const IMPORT_HELP = `
FILE is newline-delimited JSON or one JSON array, gzip or not, of such orders,
each on one line or several:
  {"id":1,"petId":7,"shipDate":"2026-11-20T08:30:00.000Z","status":"pending"}

Only id is required. id, petId and quantity are integers of 64 bits, complete
is true or false, shipDate is RFC 3339 and no finer than milliseconds, status
is pending (the default), shipped, or cancelled with its cancelledAt, which only
an empty store takes. null and unknown fields are errors. An
order replaces the stored order with the same id; of several in the file, the
last wins. A shipped order cannot become pending again; "shipped" in the result
counts stored orders that the import has shipped.

Example:
  $ npm run orders -- import orders.ndjson.gz --dry-run`;

const EXPORT_HELP = `
The export is newline-delimited JSON in ascending id. With --all, a backup, the
cancelled orders follow, and only an empty store takes it. An import accepts
both unchanged. FILE is compressed if its name ends with .gz.
With --one-moment, FILE is started over several times if orders change.

Example:
  $ npm run orders -- export orders.ndjson.gz --one-moment --env production`;

export function ordersProgram(): Command {
  const program = createProgram("npm run orders --", "Import and export the orders of the store.");
  storeCommand(program, "import")
    .argument("<file>", "file to read, or - for standard input", parseFile)
    .description("put all orders of a file into the store, or none if a line is bad")
    .addHelpText("after", IMPORT_HELP)
    .option("--dry-run", "only check the file, and compare it with the store", false)
    .addOption(yesOption())
    .action(importAndPrint);

  storeCommand(program, "export")
    .argument("[file]", "file to write (default: - for standard output)", parseFile)
    .description("write the orders of the store")
    .addHelpText("after", EXPORT_HELP)
    .option("--all", "also the cancelled orders: a backup of the whole store at one moment", false)
    .option("--one-moment", "export a consistent snapshot of the store, or fail", false)
    .action(exportAndPrint);

  storeCommand(program, "show")
    .argument("<id>", "id of the order", parseOrderId)
    .description("show an order, cancelled or not, and which key cancelled it")
    .action(show);
  return program;
}

function parseOrderId(text: string): bigint {
  const id = parseInt64(text);
  if (id === undefined) throw new InvalidArgumentError("Expected an integer of 64 bits.");
  return id;
}

async function show(id: bigint, options: StoreCommandOptions): Promise<void> {
  const { findOrder } = await import("../../store/orders/find-order.ts");
  const { lineOf } = await import("./export.ts");
  const order = await useDatabase(options, "orders", ({ orm }) => findOrder(orm, id));
  if (order === undefined) throw new Error(`no order has, or had, the id ${id}`);
  if (options.json) return printData(lineOf(order));
  printData(formatRecord(Object.entries(order)));
}

async function importAndPrint(file: string, options: OrderOptions): Promise<void> {
  // Imported on demand, because loading the database code takes a fraction of a second.
  const { compareFile, importOrders } = await import("./import.ts");
  const { SortedOrders } = await import("./sorted-orders.ts");
  const { readSource } = await import("./source.ts");
  using orders = new SortedOrders();
  await withInterruption("the file was read: nothing was sent", async (signal) => {
    await unlessAborted(signal, async () => orders.read(readSource(file)));
    signal.throwIfAborted();
  });
  const { listed, cancelled } = orders.counts();
  const count = listed + cancelled;
  if (count === 0) throw new Error("the file has no orders: nothing was imported");
  // A new store has the clock of this machine. A bad file makes none.
  if (!hasStore(options)) orders.requireValidCancellations(new Date());
  if (options.dryRun) {
    if (!hasStore(options)) process.stderr.write("There is no store yet: this import makes one.\n");
    const allNew = { new: listed, replaced: 0, shipped: 0, unchanged: 0 };
    const counts = hasStore(options)
      ? await useDatabase(options, "orders", (database) => compareFile(database, orders))
      : { ...allNew, ...(cancelled > 0 && { cancelled }) };
    if (options.json) return printJson({ wouldImport: count, ...counts });
    return printData(`Would import ${describeImport(count, counts)}.\n`);
  }
  const confirm = (counts: ImportComparison) => confirmImport(count, counts, options);
  const imported = await withInterruption("any order was placed", (signal) =>
    useDatabase(options, "orders", (database) => importOrders(database, orders, signal, confirm), {
      mayMake: true,
    }),
  );
  if (options.json) printJson({ imported: count, ...imported });
  else process.stdout.write(`Imported ${describeImport(count, imported)}.\n`);
}

/** For a deployed store, asks before orders are placed, and warns that the service pauses. */
async function confirmImport(count: number, counts: ImportComparison, options: OrderOptions) {
  const { env } = options;
  if (env === undefined) return;
  const imports = `This imports ${describeImport(count, counts)}, into ${env}.`;
  await requireConfirmation(options, `${imports}\nA shipped order cannot become pending again.`);
  const placing = `Placing ${formatCount(count, "order")}. Until this ends`;
  process.stderr.write(`${placing}, ${env} lists and cancels none.\n`);
}

function describeImport(count: number, counts: ImportComparison): string {
  const described = Object.entries(counts).map(([name, part]) => `${formatNumber(part)} ${name}`);
  return `${formatCount(count, "order")}: ${described.join(", ")}`;
}

async function exportAndPrint(file = "-", options: OrderOptions): Promise<void> {
  const { json, oneMoment, all, ...store } = options;
  if (file === "-" && json) throw new UsageError("--json needs a FILE: stdout has orders");
  const { exportOrders } = await import("./export.ts");
  const { count, isOneMoment } = await withInterruption("the export was complete", (signal) =>
    useDatabase(store, "orders", (database) =>
      exportOrders(database, file, { oneMoment: oneMoment || all, all }, signal),
    ),
  );
  if (!isOneMoment) {
    process.stderr.write(
      "warning: orders changed during the export, so it mixes the store before and after those " +
        "changes. Add --one-moment to export the store as it was at one moment.\n",
    );
  }
  if (file === "-") return;
  if (json) printJson({ exported: count });
  else process.stdout.write(`Exported ${formatCount(count, "order")} to ${file}.\n`);
}
