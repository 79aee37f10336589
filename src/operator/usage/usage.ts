import { type Command, InvalidArgumentError } from "commander";
import { EndWithStatus, printJson } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { writeUsagePage } from "./page.ts";
import { MISSING, printNoneNear, printUsageOfKey, printUsageOfKeys } from "./print-usage.ts";
import { readReport } from "./read-usage.ts";
import {
  completeBy,
  type KeyReport,
  keysNear,
  type ReportedDay,
  summarize,
  type UsageReport,
} from "./usage-report.ts";

const MAX_DAYS = 366;
const DEFAULT_DAYS = 14;
/**
 * The default of `--days` with `--near`. Includes yesterday, because a key may report the last hour
 * of a day on the next day.
 */
const NEAR_DAYS = 2;
/** The exit status if `--near` finds a key near a limit. */
const NEAR_STATUS = 3;

const EXAMPLES = `
Examples:
  $ npm run keys -- usage
  $ npm run keys -- usage key_abc --days 30
  $ npm run keys -- usage --days 90 --html usage.html --env production
  $ npm run keys -- usage key_abc --html pet-shop.html
  $ npm run -s keys -- usage --near 80 || mail -s "Keys near a limit" ops@shop.example
  $ npm run -s keys -- usage --json | jq '.[] | select(.bans > 0) | .id'

The limiter of a key reports once an hour while the key is used. "admitted" and "bans" are exact up to
the last report. "refused" and "strikes" are lower bounds. Days are in UTC. A ban is shown as soon as it
begins. ${MISSING} stands for a figure that the key has not reported yet (null in JSON).

--near PERCENT shows only keys whose fullest minute or day window reached this share of its limit. With
--near, the command checks today and yesterday unless --days is given. The exit status is 3 if a key
reached the share, 0 if no key reached it, and 1 for a failure.`;

interface UsageOptions extends StoreCommandOptions {
  readonly days?: number;
  /**
   * Reports only keys that have used at least this percentage of their limit per minute or per day.
   */
  readonly near?: number;
  readonly html?: string;
}

/**
 * Adds the options and the action of `keys usage`, which prints usage that is up to an hour old.
 */
export function defineUsage(command: Command): void {
  command
    .description("show the usage of all keys, or of one, day by day")
    .option(
      "--days <n>",
      `how many days, today included, up to ${MAX_DAYS} (default: ${DEFAULT_DAYS}, with --near ${NEAR_DAYS})`,
      parseDays,
    )
    .option(
      "--near <percent>",
      "only keys that reached this percentage of a limit, from 1 to 100",
      parsePercent,
    )
    .option("--html <file>", "write an HTML page with plots instead, of all keys or of one key")
    .addHelpText("after", EXAMPLES)
    .action(usage);
}

async function usage(id: string | undefined, options: UsageOptions): Promise<void> {
  const now = new Date();
  const { near, days = near === undefined ? DEFAULT_DAYS : NEAR_DAYS } = options;
  const all = await useDatabase(options, "keys", (database) => readReport(database, id, days, now));
  const report = near === undefined ? all : { ...all, keys: keysNear(all, near / 100) };
  if (options.html !== undefined) {
    const key = id === undefined ? undefined : all.keys[0];
    await writeUsagePage(key === undefined ? report : all, key, options.html, now);
    if (!options.json) process.stdout.write(`The page is in ${options.html}.\n`);
  }
  if (options.json) printJson(report.keys.map((key) => toUsageJson(key, now)));
  else if (options.html === undefined) print(report, all, id, options, now);
  if (near !== undefined && report.keys.length > 0) throw new EndWithStatus(NEAR_STATUS);
}

function print(
  report: UsageReport,
  all: UsageReport,
  id: string | undefined,
  { near }: UsageOptions,
  now: Date,
): void {
  const [key] = report.keys;
  if (near !== undefined && key === undefined) printNoneNear(all, near, now);
  else if (id === undefined || key === undefined) printUsageOfKeys(report, now);
  else printUsageOfKey(key, report, now);
}

/**
 * Converts the usage of a key to JSON. Times are in ISO 8601 in UTC. `minutePeak` and `dayPeak` are
 * shares of a limit. A figure that the key has not reported is `null`.
 */
function toUsageJson(report: KeyReport, now: Date) {
  return {
    ...summarize(report),
    reportedAt: report.reportedAt?.toISOString() ?? null,
    completeBy: completeBy(now).toISOString(),
    bannedUntil: report.bannedUntil?.toISOString() ?? null,
    days: report.days.map(toDayJson),
  };
}

function toDayJson(counted: ReportedDay) {
  return { ...counted, keyId: undefined, reportedAt: counted.reportedAt.toISOString() };
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
