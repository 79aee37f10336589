import { type Command, InvalidArgumentError } from "commander";
import type { UsageReport } from "../../usage/usage-report.ts";
import { printJson } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { printUsageOfKey, printUsageOfKeys } from "./print-usage.ts";
import { readReport } from "./read-report.ts";
import { toUsageRecord } from "./usage-json.ts";

const MAX_DAYS = 366;

const EXAMPLES = `
Examples:
  $ npm run keys -- usage
  $ npm run keys -- usage key_abc --days 30
  $ npm run keys -- usage --days 90 --html usage.html --env production
  $ npm run -s keys -- usage --json | jq '.[] | select(.bans > 0) | .id'

Each key reports its figures once an hour while it is used. Admitted and bans are exact up to that
report; refused and strikes are at least as many. Days are in UTC.`;

interface UsageOptions extends StoreCommandOptions {
  readonly days: number;
  readonly html?: string;
}

/** Completes the command `keys usage`. */
export function defineUsage(command: Command): void {
  command
    .description("show what all keys, or one, have used, day by day")
    .option("--days <n>", `how many days, today included, up to ${MAX_DAYS}`, parseDays, 14)
    .option("--html <file>", "write a page with plots instead, which needs no network")
    .addHelpText("after", EXAMPLES)
    .action(usage);
}

async function usage(id: string | undefined, options: UsageOptions): Promise<void> {
  const now = new Date();
  const report = await useDatabase(options, (database) =>
    readReport(database, id, options.days, now),
  );
  if (options.html !== undefined) {
    // esbuild takes its time to load, and only the page needs it.
    const { writeUsagePage } = await import("./write-page.ts");
    await writeUsagePage(report, options.html, now);
    if (!options.json) process.stdout.write(`The page is in ${options.html}.\n`);
  }
  if (options.json) return printJson(report.keys.map(toUsageRecord));
  if (options.html === undefined) print(report, id);
}

function print(report: UsageReport, id: string | undefined): void {
  const [key] = report.keys;
  if (id === undefined || key === undefined) printUsageOfKeys(report);
  else printUsageOfKey(key, report);
}

function parseDays(text: string): number {
  const days = /^[1-9]\d{0,2}$/.test(text) ? Number(text) : NaN;
  if (days <= MAX_DAYS) return days;
  throw new InvalidArgumentError(`Expected a whole number from 1 to ${MAX_DAYS}.`);
}
