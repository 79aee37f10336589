import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError, Option } from "commander";
import { createProgram, runProgram } from "../../src/operator/command-line.ts";
import { Bench } from "./bench.ts";
import { type Result, resultTable, type Table, toMarkdown } from "./report.ts";
import { distance } from "./sections/distance.ts";
import { hotKey } from "./sections/hot-key.ts";
import { inventedKeys } from "./sections/invented-keys.ts";
import { busyList, farList, largeList, memory } from "./sections/lists.ts";
import { requests } from "./sections/requests.ts";

/** Each section adds rows to the table of results, or a table of its own. */
const SECTIONS = {
  requests,
  "large-list": largeList,
  memory,
  "busy-list": busyList,
  "far-list": farList,
  "hot-key": hotKey,
  distance,
  "invented-keys": inventedKeys,
} as const satisfies Record<string, (bench: Bench) => Promise<Result[] | Table>>;

type Section = keyof typeof SECTIONS;

interface Options {
  readonly only: readonly Section[];
  readonly rounds: number;
  readonly orders: number;
}

const NAMES = Object.keys(SECTIONS) as Section[];

const program = createProgram(
  "npm run bench --",
  "Measures the service against an earlier version and against bare Workers, in turns, and prints tables in Markdown.",
)
  .addOption(new Option("--only <section...>", "sections to run").choices(NAMES).default(NAMES))
  .option("--rounds <n>", "how many times each contestant is measured", atLeast(1), 5)
  .option("--orders <n>", "orders of the largest store", atLeast(10_000), 1_000_000)
  .addHelpText(
    "after",
    "\nAll files are in a new folder below TMPDIR, which is removed at the end. A slow disk hides\n" +
      "differences in processor time. To avoid this, set TMPDIR=/dev/shm, which needs 4 GB free.\n",
  )
  .action(run);

async function run({ only, rounds, orders }: Options): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "store-orders-bench-"));
  const bench = new Bench({ rounds, orders, folder });
  process.once("exit", () => bench.remove());
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
  const results: Result[] = [];
  const tables: Table[] = [];
  for (const name of only) {
    const measured = await SECTIONS[name](bench);
    if ("rows" in measured) tables.push(measured);
    else results.push(...measured);
  }
  const printed = [...(results.length > 0 ? [resultTable(results)] : []), ...tables];
  process.stdout.write(printed.map(toMarkdown).join("\n"));
}

function atLeast(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`Expected a whole number of at least ${least}.`);
  };
}

await runProgram(program, process.argv.slice(2));
