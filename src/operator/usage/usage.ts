import { type Command, InvalidArgumentError } from "commander";
import { keysNear, type UsageReport } from "./usage-report.ts";
import { EndWithStatus, printJson } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { MISSING, printUsageOfKey, printUsageOfKeys } from "./print-usage.ts";
import { readReport } from "./read-report.ts";
import { toUsageJson } from "./usage-json.ts";

const MAX_DAYS = 366;
const DEFAULT_DAYS = 14;
/** Reports come up to an hour late: a daily job would miss the last hour of a day with one day. */
const NEAR_DAYS = 2;
/** Exit status of `--near` if there are such keys. */
const NEAR_STATUS = 3;

const EXAMPLES = `
Examples:
  $ npm run keys -- usage
  $ npm run keys -- usage key_abc --days 30
  $ npm run keys -- usage --days 90 --html usage.html --env production
  $ npm run -s keys -- usage --near 80 || mail -s "Keys near a limit" ops@shop.example
  $ npm run -s keys -- usage --json | jq '.[] | select(.bans > 0) | .id'

Each key reports its figures once an hour while it is used. Admitted and bans are exact up to that
report; refused and strikes are at least as many. Days are in UTC. A ban shows as soon as it happens.
A figure that no key has reported yet is shown as ${MISSING}, never as 0.

--near PERCENT shows the keys whose fullest minute or day, of the days shown, came to that share of the
key's limit on that day. It looks at today and yesterday unless --days says otherwise. Exit status: 3
if there are such keys, 0 if there are none, 1 for a failure.`;

interface UsageOptions extends StoreCommandOptions {
  readonly days?: number;
  /** In percent. */
  readonly near?: number;
  readonly html?: string;
}

/** Completes the command `keys usage`. */
export function defineUsage(command: Command): void {
  command
    .description("show what all keys, or one, have used, day by day")
    .option(
      "--days <n>",
      `how many days, today included, up to ${MAX_DAYS} (default: ${DEFAULT_DAYS}, with --near ${NEAR_DAYS})`,
      parseDays,
    )
    .option(
      "--near <percent>",
      "only keys at this share of a limit or more, 1 to 100",
      parsePercent,
    )
    .option("--html <file>", "write a page with plots instead, which needs no network")
    .addHelpText("after", EXAMPLES)
    .action(usage);
}

async function usage(id: string | undefined, options: UsageOptions): Promise<void> {
  const now = new Date();
  const { near, days = near === undefined ? DEFAULT_DAYS : NEAR_DAYS } = options;
  const all = await useDatabase(options, "keys", (database) => readReport(database, id, days, now));
  const report = near === undefined ? all : { ...all, keys: keysNear(all, near / 100) };
  await output(report, id, options, now);
  if (near !== undefined && report.keys.length > 0) throw new EndWithStatus(NEAR_STATUS);
}

async function output(
  report: UsageReport,
  id: string | undefined,
  options: UsageOptions,
  now: Date,
): Promise<void> {
  if (options.html !== undefined) {
    // esbuild takes its time to load, and only the page needs it.
    const { writeUsagePage } = await import("./write-page.ts");
    await writeUsagePage(report, options.html, now);
    if (!options.json) process.stdout.write(`The page is in ${options.html}.\n`);
  }
  if (options.json) return printJson(report.keys.map((key) => toUsageJson(key, now)));
  if (options.html !== undefined) return;
  if (options.near !== undefined && report.keys.length === 0) {
    process.stdout.write(`No key came to ${options.near} % of a limit.\n`);
  } else print(report, id, now);
}

function print(report: UsageReport, id: string | undefined, now: Date): void {
  const [key] = report.keys;
  if (id === undefined || key === undefined) printUsageOfKeys(report, now);
  else printUsageOfKey(key, report, now);
}

function parseDays(text: string): number {
  const days = /^[1-9]\d{0,2}$/.test(text) ? Number(text) : NaN;
  if (days <= MAX_DAYS) return days;
  throw new InvalidArgumentError(`Expected a whole number from 1 to ${MAX_DAYS}.`);
}

function parsePercent(text: string): number {
  const percent = /^[1-9]\d{0,2}$/.test(text) ? Number(text) : NaN;
  if (percent <= 100) return percent;
  throw new InvalidArgumentError("Expected a whole number from 1 to 100.");
}
