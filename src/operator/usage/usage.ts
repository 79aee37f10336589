import type { Command } from "commander";
import sparkly from "sparkly";
import { wholeNumberParser } from "../arguments.ts";
import { EndWithStatus, printJson } from "../command-line.ts";
import { databaseTime } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import {
  formatCount,
  formatNumber,
  formatTable,
  formatTime,
  type Row,
  shareCell,
} from "../terminal-text.ts";
import { MISSING, writeUsagePage } from "./page.ts";
import {
  completeBy,
  COUNTS,
  figuresByDay,
  type KeyReport,
  keysNear,
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
const PLOT = "by day";

/** The columns that a narrow terminal may leave out, the most important column first. */
const OPTIONAL_COLUMNS = [
  "banned until",
  "bans",
  "refused",
  "day peak",
  "minute peak",
  "plan",
  "strikes",
  PLOT,
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
    .option(
      "--near <percent>",
      "only keys that reached this percentage of a limit, from 1 to 100",
      wholeNumberParser(100),
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
    process.stdout.write(
      key === undefined
        ? textOfNoKey(all, near, now)
        : id === undefined
          ? textOfKeys(report, now)
          : textOfKey(key, report, now),
    );
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

function textOfKeys(report: UsageReport, now: Date): string {
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
      [PLOT]: key.reportedAt === null ? null : plot(key, report.days),
    };
  });
  const isAnyMissing = report.keys.some(({ reportedAt }) => reportedAt === null);
  const table = formatTable(rows, { cut: ["name"], optional: OPTIONAL_COLUMNS });
  return table + provenance(report, isAnyMissing, now);
}

function textOfKey(key: KeyReport, report: UsageReport, now: Date): string {
  const { id, name, plan, bannedUntil } = key;
  const ban = bannedUntil === null ? "" : `Banned until ${formatTime(bannedUntil)}.\n`;
  const title = `${id}, ${name} (${plan})\n${ban}`;
  if (key.reportedAt === null && key.bans === null) {
    return `${title}No figures from ${range(report)}. ${whenFiguresCome(now)}\n`;
  }
  const days = figuresByDay(report, now);
  const rows = days.map((counts) => {
    const [reported] = counts.reports;
    return {
      day: counts.day,
      ...figures(counts),
      "minute peak": reported ? peak(reported.peakMinute, reported.perMinute) : null,
      "day peak": reported ? peak(reported.peakDay, reported.perDay) : null,
    };
  });
  const isAnyMissing = days.some(({ admitted }) => admitted === null);
  const byDay = `${range(report)}, admitted by day: ${plot(key, report.days)}\n\n`;
  return title + byDay + formatTable(rows) + provenance(report, isAnyMissing, now);
}

function textOfNoKey({ keys }: UsageReport, near: number | undefined, now: Date): string {
  if (near === undefined) return "There are no keys yet.\n";
  const silent = keys.filter(({ reportedAt }) => reportedAt === null).length;
  if (silent === 0) return `No key reached ${near} % of a limit.\n`;
  const count = formatCount(silent, "key");
  return `No key is known to have reached ${near} % of a limit. ${count} reported nothing. ${whenFiguresCome(now)}\n`;
}

function figures(totals: UsageTotals): Row {
  const missing = { text: MISSING, isFigure: true };
  return Object.fromEntries(COUNTS.map((name) => [name, totals[name] ?? missing]));
}

function peak(count: number, limit: number) {
  const text = `${formatNumber(count)} of ${formatNumber(limit)}`;
  return { text, isAlarm: count >= limit, isFigure: true };
}

function plot(key: KeyReport, days: readonly string[]): string {
  const admitted = new Map(key.days.map((counted) => [counted.day, counted.admitted]));
  const counts = days.map((day) => admitted.get(day) ?? 0);
  return sparkly(counts, { minimum: 0 });
}

function range({ days }: UsageReport): string {
  return `${days.at(0)} to ${days.at(-1)}`;
}

function whenFiguresCome(now: Date): string {
  return `A key in use reports by ${formatTime(completeBy(now))}.`;
}

/** Returns sentences that say how recent and how exact the figures of a report are. */
function provenance(report: UsageReport, isAnyMissing: boolean, now: Date): string {
  const asOf =
    report.reportedAt === null
      ? `Nothing was reported from ${range(report)}.`
      : `From ${range(report)}, as reported until ${formatTime(report.reportedAt)}.`;
  const legend = `${MISSING}: nothing was reported. ${whenFiguresCome(now)}\n`;
  return `${asOf} Each key reports once an hour while it is used; "refused" and "strikes" are lower bounds.\n${isAnyMissing ? legend : ""}`;
}
