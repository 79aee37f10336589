import { resolve } from "node:path";
import { Option } from "commander";
import { parseCount } from "../../src/operator/arguments.ts";
import { createProgram, runProgram } from "../../src/operator/command-line.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { Checkout, say, type Served } from "./checkout.ts";
import { type Measurement, sectionsOf } from "./sections.ts";

const MEBIBYTE = 2 ** 20;
/** The least ratio of the baseline's figure to today's. */
const TARGETS = { ms: 0.97, MiB: 0.95 };

type Section = keyof ReturnType<typeof sectionsOf>;
const NAMES = Object.keys(sectionsOf(0)) as Section[];

/** A figure, and the server's processor time for it; other processes hardly affect the latter. */
type Figures = { readonly figure: number; readonly processorMs: number };

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

async function run({
  only,
  rounds,
  orders,
  baseline,
}: {
  readonly only: readonly Section[];
  readonly rounds: number;
  readonly orders: number;
  readonly baseline?: string;
}): Promise<void> {
  const folder = temporaryFolder("bench");
  const checkouts = [new Checkout("today", PROJECT_ROOT, folder)];
  if (baseline) checkouts.push(new Checkout("baseline", resolve(baseline), folder));
  const ratio = "Baseline to today (min–max)";
  const rows = [["What", "Today", "Baseline", ratio, "By processor time", "Target"]];
  rows.push(rows[0]!.map(() => "---"));
  for (const measurement of only.flatMap((name) => sectionsOf(orders)[name])) {
    say(measurement.what);
    rows.push(row(measurement, await takeTurns(measurement, checkouts, rounds)));
  }
  for (const cells of rows) console.log(`| ${cells.join(" | ")} |`);
}

/**
 * Warms up each checkout, then measures all of them in every round, so that other work on the
 * machine affects them alike. Every second round has the reverse order.
 */
async function takeTurns(
  measurement: Measurement,
  checkouts: readonly Checkout[],
  rounds: number,
): Promise<Figures[][]> {
  const { serve = {}, isCold = false, starts = 1 } = measurement;
  const figures = checkouts.map((): Figures[] => []);
  for (let started = 0; started < starts; started += 1) {
    await using stack = new AsyncDisposableStack();
    const turns = [];
    for (const [index, checkout] of checkouts.entries()) {
      const warm = isCold ? null : stack.use(await checkout.serve(serve));
      const turn = async (round: number) => {
        await using fresh = warm === null ? await checkout.serve(serve) : null;
        return await measure(measurement, (warm ?? fresh)!, round);
      };
      await turn(0);
      turns.push(async (round: number) => figures[index]!.push(await turn(round)));
    }
    for (let round = 1; round <= rounds; round += 1) {
      for (const turn of round % 2 === 1 ? turns : turns.toReversed()) await turn(round);
    }
  }
  return figures;
}

async function measure(
  { unit, prepare, run: runOnce }: Measurement,
  server: Served,
  round: number,
): Promise<Figures> {
  await prepare?.(server, round);
  const spentBefore = server.process.processorMs();
  const startMs = performance.now();
  const count = (await runOnce(server)) ?? 1;
  const ms = performance.now() - startMs;
  const processorMs = (server.process.processorMs() - spentBefore) / count;
  const figure = unit === "MiB" ? server.process.peakBytes() / MEBIBYTE : ms / count;
  // Miniflare crashes if its process is stopped while the service fills its memory.
  await server.process.idle();
  return { figure, processorMs };
}

function row({ what, unit = "ms" }: Measurement, [today = [], baseline]: Figures[][]): string[] {
  const text = (all: readonly Figures[]) =>
    `${number(median(all.map(({ figure }) => figure)))} ${unit}`;
  if (baseline === undefined) return [what, text(today), "", "", "", ""];
  const ratios = (name: keyof Figures) => baseline.map((one, n) => one[name] / today[n]![name]);
  const spread = (all: number[]) =>
    `${number(median(all))} (${number(Math.min(...all))}–${number(Math.max(...all))})`;
  const isMet = median(ratios("figure")) >= TARGETS[unit];
  const verdict = `≥ ${TARGETS[unit]}: ${isMet ? "met" : "**not met**"}`;
  const processor = unit === "ms" ? spread(ratios("processorMs")) : "";
  return [what, text(today), text(baseline), spread(ratios("figure")), processor, verdict];
}

function median(figures: readonly number[]): number {
  return figures.toSorted((one, other) => one - other)[Math.floor(figures.length / 2)] ?? NaN;
}

/** Formats a number with three significant digits, or as an integer if it is 100 or more. */
function number(value: number): string {
  return value.toLocaleString("en", {
    maximumSignificantDigits: 3,
    maximumFractionDigits: 0,
    roundingPriority: "morePrecision",
  });
}

await runProgram(program, process.argv.slice(2));
