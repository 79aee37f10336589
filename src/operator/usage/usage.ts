import { type Command, Option } from "commander";
import { wholeNumberParser } from "../arguments.ts";
import { EndWithStatus, printJson } from "../command-line.ts";
import { databaseTime } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { formatNumber, formatTable, formatTime, type Row, shareCell } from "../terminal-text.ts";
import { MISSING, writeUsagePage } from "./page.ts";
import {
  completeBy,
  COUNTS,
  figuresByDay,
  type KeyReport,
  keysNear,
  NEAR_LIMIT,
  readReport,
  type UsageReport,
  type UsageTotals,
} from "./usage-report.ts";

const MAX_DAYS = 366;
const DEFAULT_DAYS = 14;
/** The default of `--days` with `--near`. A key may report yesterday's last hour only today. */
const NEAR_DAYS = 2;
/** The exit status if `--near` finds a key near a limit. */
const NEAR_STATUS = 3;

/** The columns that a narrow terminal may leave out, the most important column first. */
const OPTIONAL_COLUMNS = [
  "banned until",
  "bans",
  "refused",
  "day peak",
  "minute peak",
  "plan",
  "strikes",
];

const EXAMPLES = `
Examples:
  $ npm run keys -- usage key_abc --days 30
  $ npm run keys -- usage --days 90 --html usage.html --env production
  $ npm run -s keys -- usage --near 80 || mail -s "Keys near a limit" ops@shop.example

The limiter of a key reports once an hour while the key is used. "admitted" and "bans" are exact up to
the last report, "refused" and "strikes" are lower bounds. Days are in UTC. ${MISSING} stands for a figure
that was not reported yet (null in JSON).

--near shows only keys whose fullest minute or day reached this percentage of its limit. The exit status
is 3 if there is one, else 0, and 1 for a failure.`;

interface UsageOptions extends StoreCommandOptions {
  readonly days?: number;
  /** Shows only keys that reached this percentage of a limit. */
  readonly near?: number;
  readonly html?: string;
}

/** Adds the options and the action of `keys usage`. The usage may be up to an hour out of date. */
export function defineUsage(command: Command): void {
  command
    .description("show the usage of all keys, or of one, day by day")
    .option(
      "--days <n>",
      `how many days, today included, up to ${MAX_DAYS} (default: ${DEFAULT_DAYS}, with --near ${NEAR_DAYS})`,
      wholeNumberParser(MAX_DAYS),
    )
    .addOption(
      new Option(
        "--near [percent]",
        `only keys that reached this percentage of a limit, from 1 to 100 (default: ${100 * NEAR_LIMIT})`,
      )
        .preset(String(100 * NEAR_LIMIT))
        .argParser(wholeNumberParser(100)),
    )
    .option("--html <file>", "write an HTML page with plots instead, of all keys or of one key")
    .addHelpText("after", EXAMPLES)
    .action(usage);
}

async function usage(id: string | undefined, options: UsageOptions): Promise<void> {
  const { near, days = near === undefined ? DEFAULT_DAYS : NEAR_DAYS } = options;
  const { all, now } = await useDatabase(options, "keys", async ({ orm }) => {
    const at = await databaseTime(orm);
    return { all: await readReport(orm, id, days, at), now: at };
  });
  const report = near === undefined ? all : { ...all, keys: keysNear(all, near / 100) };
  if (options.html !== undefined) {
    // The page of one key shows the key even if it is not near a limit.
    const shown = id === undefined ? report : all;
    await writeUsagePage(shown, id === undefined ? undefined : all.keys[0], options.html, now);
    if (!options.json) process.stdout.write(`The page is in ${options.html}.\n`);
  }
  const [key] = report.keys;
  if (options.json) printJson(report.keys.map((one) => toUsageJson(one, now)));
  else if (options.html === undefined) {
    const table =
      key === undefined
        ? `No key${near === undefined ? "" : ` is known to have reached ${near} % of a limit`}.\n`
        : id === undefined
          ? tableOfKeys(report)
          : tableOfKey(key, report);
    process.stdout.write(table + provenance(all, now));
  }
  if (near !== undefined && key !== undefined) throw new EndWithStatus(NEAR_STATUS);
}

function toUsageJson(report: KeyReport, now: Date) {
  const { limits: _limits, bansByDay: _bans, days, ...rest } = report;
  return {
    ...rest,
    completeBy: completeBy(now),
    days: days.map(({ keyId: _id, ...counted }) => counted),
  };
}

function tableOfKeys(report: UsageReport): string {
  const rows = report.keys.map((key) => {
    const { id, name, plan, minutePeak, dayPeak, bannedUntil } = key;
    return {
      id,
      name,
      plan,
      ...figures(key),
      "minute peak": minutePeak === null ? null : shareCell(minutePeak),
      "day peak": dayPeak === null ? null : shareCell(dayPeak),
      "banned until": bannedUntil,
    };
  });
  return formatTable(rows, { cut: ["name"], optional: OPTIONAL_COLUMNS });
}

function tableOfKey(key: KeyReport, report: UsageReport): string {
  const { id, name, plan, bannedUntil } = key;
  const ban = bannedUntil === null ? "" : `Banned until ${formatTime(bannedUntil)}.\n`;
  const rows = figuresByDay(report).map((counts) => {
    const [reported] = counts.reports;
    return {
      day: counts.day,
      ...figures(counts),
      "minute peak": reported ? peak(reported.peakMinute, reported.perMinute) : null,
      "day peak": reported ? peak(reported.peakDay, reported.perDay) : null,
    };
  });
  return `${id}, ${name} (${plan})\n${ban}\n${formatTable(rows)}`;
}

function figures(totals: UsageTotals): Row {
  const missing = { text: MISSING, isFigure: true };
  return Object.fromEntries(COUNTS.map((name) => [name, totals[name] ?? missing]));
}

function peak(count: number, limit: number) {
  const text = `${formatNumber(count)} of ${formatNumber(limit)}`;
  return { text, isAlarm: count >= limit, isFigure: true };
}

/** Returns sentences that say how recent and how exact the figures of a report are. */
function provenance({ days, reportedAt }: UsageReport, now: Date): string {
  const range = `rom ${days.at(0)} to ${days.at(-1)}`;
  const asOf =
    reportedAt === null
      ? `Nothing was reported f${range}.`
      : `F${range}, as reported until ${formatTime(reportedAt)}; "refused" and "strikes" are lower bounds.`;
  return `${asOf}\n${MISSING}: nothing was reported. A key in use reports by ${formatTime(completeBy(now))}.\n`;
}
