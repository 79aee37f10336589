import { Option } from "commander";
import { parseCount } from "../arguments.ts";
import { printData, printJson } from "../command-line.ts";
import { formatNumber, formatTable, type Row, type TableOptions } from "../terminal-text.ts";

/** Returns the option `--limit` for a command that prints the newest key changes or bans. */
export function limitOption(entries: string): Option {
  const option = new Option("--limit <n>", `how many ${entries} at most`);
  return option.argParser(parseCount).default(100);
}

/** Prints the newest key changes or bans as one JSON array, or as a table if `json` is false. */
export function printNewest<Entry>(
  entries: readonly Entry[],
  { json, limit }: { readonly json: boolean; readonly limit: number },
  as: TableOptions & {
    readonly json: (entry: Entry) => object;
    readonly row: (entry: Entry) => Row;
    /** The sentence to print if there are no entries. */
    readonly none: string;
  },
): void {
  if (json) return printJson(entries.map(as.json));
  if (entries.length === 0) return void process.stderr.write(`${as.none}\n`);
  printData(formatTable(entries.map(as.row), as));
  if (entries.length === limit) {
    process.stderr.write(`The newest ${formatNumber(limit)}; --limit N shows more.\n`);
  }
}
