import sparkly from "sparkly";
import {
  figureCell,
  formatCount,
  formatNumber,
  formatTable,
  formatTime,
  type Row,
  shareCell,
} from "../terminal-text.ts";
import {
  completeBy,
  figuresByDay,
  type KeyReport,
  type UsageReport,
  type UsageTotals,
} from "./usage-report.ts";

/** The text in place of a figure that the key has not reported yet. */
export const MISSING = "–";

/** Prints a row for each key, the busiest first, with a plot of the admitted requests by day. */
export function printUsageOfKeys(report: UsageReport, now: Date): void {
  if (report.keys.length === 0) {
    process.stdout.write("There are no keys yet.\n");
    return;
  }
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
  process.stdout.write(formatTable(rows, { cut: ["name"], optional: OPTIONAL_COLUMNS }));
  const isAnyMissing = report.keys.some(({ reportedAt }) => reportedAt === null);
  process.stdout.write(`${provenance(report)}\n${isAnyMissing ? legend(now) : ""}`);
}

/** Prints a row for each day of one key. */
export function printUsageOfKey(key: KeyReport, report: UsageReport, now: Date): void {
  const { id, name, plan, bannedUntil } = key;
  const ban = bannedUntil === null ? "" : `Banned until ${formatTime(bannedUntil)}.\n`;
  const title = `${id}, ${name} (${plan})\n${ban}`;
  if (key.reportedAt === null && key.bans === null) {
    process.stdout.write(`${title}No figures from ${range(report)}. ${whenFiguresCome(now)}\n`);
    return;
  }
  const days = figuresByDay({ ...report, keys: [key] }, now);
  const rows = days.map((counts) => {
    const { day, only } = counts;
    return {
      day,
      ...figures(counts),
      "minute peak": only === undefined ? null : peak(only.peakMinute, only.perMinute),
      "day peak": only === undefined ? null : peak(only.peakDay, only.perDay),
    };
  });
  const isAnyMissing = days.some(({ admitted }) => admitted === null);
  process.stdout.write(
    `${title}${range(report)}, admitted by day: ${plot(key, report.days)}\n\n` +
      `${formatTable(rows)}${provenance(report)}\n${isAnyMissing ? legend(now) : ""}`,
  );
}

/** Prints that no key reached `percent` of a limit, and how many keys may have without a report. */
export function printNoneNear(all: UsageReport, percent: number, now: Date): void {
  const silent = all.keys.filter(({ reportedAt }) => reportedAt === null).length;
  process.stdout.write(
    silent === 0
      ? `No key reached ${percent} % of a limit.\n`
      : `No key is known to have reached ${percent} % of a limit. ` +
          `${formatCount(silent, "key")} reported nothing. ${whenFiguresCome(now)}\n`,
  );
}

/** The title of the column that plots the admitted requests of each day. */
const PLOT = "by day";

/**
 * The columns of the usage table that a narrow terminal may leave out, the most important column
 * first.
 */
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

function figures({ admitted, refused, strikes, bans }: UsageTotals): Row {
  const cell = (count: number | null) => count ?? figureCell(MISSING);
  return {
    admitted: cell(admitted),
    refused: cell(refused),
    strikes: cell(strikes),
    bans: cell(bans),
  };
}

/**
 * Returns a table cell with the number of requests in a key's fullest window, and the window's
 * limit. The cell is red if the window was full.
 */
function peak(count: number, limit: number) {
  return figureCell(`${formatNumber(count)} of ${formatNumber(limit)}`, count >= limit);
}

function whenFiguresCome(now: Date): string {
  return `A key in use reports by ${formatTime(completeBy(now))}.`;
}

function legend(now: Date): string {
  return `${MISSING}: nothing was reported. ${whenFiguresCome(now)}\n`;
}

function range({ days }: UsageReport): string {
  return `${days.at(0)} to ${days.at(-1)}`;
}

function plot(key: KeyReport, days: readonly string[]): string {
  const admitted = new Map(key.days.map((counted) => [counted.day, counted.admitted]));
  return sparkly(
    days.map((day) => admitted.get(day) ?? 0),
    { minimum: 0 },
  );
}

function provenance(report: UsageReport): string {
  const { reportedAt } = report;
  const asOf =
    reportedAt === null
      ? `Nothing was reported from ${range(report)}.`
      : `From ${range(report)}, as reported until ${formatTime(reportedAt)}.`;
  return `${asOf} Each key reports once an hour while it is used; "refused" and "strikes" are lower bounds.`;
}
