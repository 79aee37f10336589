import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { InvalidArgumentError, Option } from "commander";
import { createProgram, runProgram } from "../../src/operator/command-line.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { Checkout } from "./checkout.ts";
import { resultTable, type Row } from "./report.ts";
import { type Bench, busyList, farList, hotKey, largeList, memory, requests } from "./sections.ts";

const SECTIONS = {
  requests,
  "hot-key": hotKey,
  "large-list": largeList,
  "far-list": farList,
  "busy-list": busyList,
  memory,
} satisfies Record<string, (bench: Bench) => Promise<Row[]>>;
type Section = keyof typeof SECTIONS;
const NAMES = Object.keys(SECTIONS) as Section[];

interface Options {
  readonly only: readonly Section[];
  readonly rounds: number;
  readonly orders: number;
  readonly baseline?: string;
}

const program = createProgram(
  "npm run bench --",
  "Measures the service in turns with bare Workers and with another checkout, and prints a table in Markdown.",
)
  .addOption(new Option("--only <section...>", "sections to run").choices(NAMES).default(NAMES))
  .option("--baseline <dir>", "a checkout of another commit, with its packages installed")
  .option("--rounds <n>", "how many times each contestant is measured", atLeast(1), 5)
  .option("--orders <n>", "orders of the largest store", atLeast(10_000), 1_000_000)
  .addHelpText(
    "after",
    "\nAll files are in a new folder below TMPDIR, which is removed at the end. A slow disk hides\n" +
      "differences in processor time. To avoid this, set TMPDIR=/dev/shm, which needs 4 GB free.\n",
  )
  .action(run);

async function run({ only, rounds, orders, baseline }: Options): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "store-orders-bench-"));
  // Removes all files synchronously, because Miniflare ends the process at once after a signal.
  process.once("exit", () =>
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 }),
  );
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
  const bench: Bench = {
    rounds,
    orders,
    today: new Checkout("today", PROJECT_ROOT, folder),
    baseline: baseline === undefined ? null : new Checkout("baseline", resolve(baseline), folder),
  };
  const results: Row[] = [];
  for (const name of only) results.push(...(await SECTIONS[name](bench)));
  process.stdout.write(resultTable(results));
}

function atLeast(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`Expected a whole number of at least ${least}.`);
  };
}

await runProgram(program, process.argv.slice(2));
