import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Option } from "commander";
import { parseCount } from "../../src/operator/arguments.ts";
import { createProgram, runProgram } from "../../src/operator/command-line.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { Checkout, say } from "./checkout.ts";
import { type Figures, type Measurement, SECTIONS } from "./sections.ts";

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
  "Measures the service, if you like in turns with another checkout, and prints a table in Markdown.",
)
  .addOption(new Option("--only <section...>", "sections to run").choices(NAMES).default(NAMES))
  .option("--baseline <dir>", "a checkout of another commit, with its packages installed")
  .option("--rounds <n>", "how many times each checkout is measured", parseCount, 5)
  .option("--orders <n>", "orders of the largest store", parseCount, 1_000_000)
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
  const checkouts = [new Checkout("today", PROJECT_ROOT, folder)];
  if (baseline) checkouts.push(new Checkout("baseline", resolve(baseline), folder));
  const rows: string[][] = [];
  for (const name of only) {
    for (const measurement of SECTIONS[name](orders)) {
      say(measurement.what);
      rows.push(row(measurement, await takeTurns(measurement, checkouts, rounds)));
    }
  }
  const head = [
    "What",
    "Today",
    "Baseline",
    "Baseline to today (min–max)",
    "By processor time",
    "Target",
  ];
  for (const cells of [head, head.map(() => "---"), ...rows])
    console.log(`| ${cells.join(" | ")} |`);
}

/**
 * Warms up each checkout, then measures all of them in every round, so that other work on the
 * machine affects them alike. Every second round has the reverse order.
 */
async function takeTurns(
  { start, starts = 1 }: Measurement,
  checkouts: readonly Checkout[],
  rounds: number,
): Promise<Figures[][]> {
  const figures = checkouts.map((): Figures[] => []);
  for (let started = 0; started < starts; started += 1) {
    await using stack = new AsyncDisposableStack();
    const turns = [];
    for (const [index, checkout] of checkouts.entries()) {
      const measure = await start(checkout, stack);
      await measure();
      turns.push(async () => figures[index]!.push(await measure()));
    }
    for (let round = 0; round < rounds; round += 1) {
      for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
    }
  }
  return figures;
}

function row({ what, unit, target }: Measurement, [today = [], baseline]: Figures[][]): string[] {
  const text = (all: readonly Figures[]) =>
    `${number(median(all.map((one) => one.figure)))} ${unit}`;
  if (baseline === undefined) return [what, text(today), "", "", "", ""];
  const ratios = (name: keyof Figures) => baseline.map((one, n) => one[name] / today[n]![name]);
  const spread = (all: number[]) =>
    `${number(median(all))} (${number(Math.min(...all))}–${number(Math.max(...all))})`;
  const isMet = median(ratios("figure")) >= target;
  const verdict = `≥ ${target}: ${isMet ? "met" : "**not met**"}`;
  const processor = unit === "ms" ? spread(ratios("processorMs")) : "";
  return [what, text(today), text(baseline), spread(ratios("figure")), processor, verdict];
}

function median(figures: readonly number[]): number {
  return figures.toSorted((one, other) => one - other)[Math.floor(figures.length / 2)] ?? NaN;
}

/** Formats a number with three significant digits, or as an integer if it is 100 or more. */
function number(value: number): string {
  return (value >= 100 ? Math.round(value) : Number(value.toPrecision(3))).toLocaleString("en");
}

await runProgram(program, process.argv.slice(2));
