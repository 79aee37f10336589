import { resolve } from "node:path";
import { Option } from "commander";
import { parseCount } from "../../src/operator/arguments.ts";
import { createProgram, runProgram } from "../../src/operator/command-line.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { openCheckout, say, type Serve, type Served } from "./checkout.ts";
import { type Measurement, sectionsOf } from "./sections.ts";

/** The least ratio of the baseline's figure to today's. */
const TARGETS = { ms: 0.97, MiB: 0.95 };

type Section = keyof ReturnType<typeof sectionsOf>;
const NAMES = Object.keys(sectionsOf(0)) as Section[];

/** A figure, and the server's processor time for it; other processes hardly affect the latter. */
type Figures = Record<"figure" | "processorMs", number>;

type Options = Record<"rounds" | "orders", number> & { only: Section[]; baseline?: string };

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
  const folder = temporaryFolder("bench");
  const checkouts = [openCheckout("today", PROJECT_ROOT, folder)];
  if (baseline) checkouts.push(openCheckout("baseline", resolve(baseline), folder));
  const ratio = "Baseline to today (min–max)";
  const head = ["What", "Today", "Baseline", ratio, "By processor time", "Target"];
  const rows = [head, head.map(() => "---")];
  for (const measurement of only.flatMap((name): Measurement[] => sectionsOf(orders)[name])) {
    say(measurement.what);
    rows.push(row(measurement, await takeTurns(measurement, checkouts, rounds)));
  }
  for (const cells of rows) console.log(`| ${cells.join(" | ")} |`);
}

/**
 * Measures all checkouts in every round, so that other work on the machine affects them alike, and
 * in every second round in the reverse order. The first round only warms them up.
 */
async function takeTurns(measurement: Measurement, checkouts: readonly Serve[], rounds: number) {
  const { isCold, starts = 1 } = measurement;
  const turns = checkouts.map((serve) => ({ serve, figures: [] as Figures[] }));
  for (let started = 0; started < starts; started += 1) {
    await using stack = new AsyncDisposableStack();
    const warm = new Map<Serve, Served>();
    for (const serve of isCold ? [] : checkouts) {
      warm.set(serve, stack.use(await serve(measurement.serve)));
    }
    for (let round = 0; round <= rounds; round += 1) {
      for (const { serve, figures } of round % 2 === 1 ? turns : turns.toReversed()) {
        await using fresh = isCold ? await serve(measurement.serve) : null;
        const measured = await measure(measurement, fresh ?? warm.get(serve)!);
        if (round > 0) figures.push(measured);
      }
    }
  }
  return turns.map(({ figures }) => figures);
}

async function measure(measurement: Measurement, server: Served): Promise<Figures> {
  await measurement.prepare?.(server);
  const spentBefore = server.processorMs();
  const startMs = performance.now();
  const count = (await measurement.run(server)) ?? 1;
  const ms = performance.now() - startMs;
  const processorMs = (server.processorMs() - spentBefore) / count;
  const figure = measurement.unit === "MiB" ? server.peakMebibytes() : ms / count;
  // Miniflare crashes if its process is stopped while the service fills its memory.
  await server.idle();
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

const median = (figures: readonly number[]) =>
  figures.toSorted((one, other) => one - other)[Math.floor(figures.length / 2)] ?? NaN;

/** Formats a number with three significant digits, or as an integer if it is 100 or more. */
const number = (value: number) =>
  value < 100 ? value.toPrecision(3) : Math.round(value).toLocaleString("en");

await runProgram(program, process.argv.slice(2));
