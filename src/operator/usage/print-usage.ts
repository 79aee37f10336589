import sparkly from "sparkly";
import {
  type Cell,
  figureCell,
  formatNumber,
  formatTable,
  formatTime,
  type Row,
  shareCell,
} from "../terminal-text.ts";
import {
  completeBy,
  isComplete,
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
    const isKnown = key.reportedAt !== null;
    return {
      id,
      name,
      plan,
      ...(isKnown ? figures(key) : missingFigures(key.bans)),
      "minute peak": isKnown ? shareCell(minutePeak) : null,
      "day peak": isKnown ? shareCell(dayPeak) : null,
      "banned until": bannedUntil,
      [PLOT]: isKnown ? plot(key, report.days) : null,
    };
  });
  process.stdout.write(formatTable(rows, { cut: ["name"], optional: OPTIONAL_COLUMNS }));
  const isAnyMissing = report.keys.some(({ reportedAt }) => reportedAt === null);
  process.stdout.write(`${provenance(report)}\n`);
  if (isAnyMissing) process.stdout.write(`${legend(now)}\n`);
}

/** Prints a row for each day of one key. */
export function printUsageOfKey(key: KeyReport, report: UsageReport, now: Date): void {
  const title = `${key.id}, ${key.name} (${key.plan})\n${banned(key)}`;
  if (key.reportedAt === null && key.bans === 0) {
    process.stdout.write(`${title}No figures from ${range(report)}. ${whenFiguresCome(now)}\n`);
    return;
  }
  const isMissing = (day: string) => !byDay.has(day) && !isComplete(day, now);
  const byDay = new Map(key.days.map((counted) => [counted.day, counted]));
  const rows = report.days.map((day) => {
    const counted = byDay.get(day);
    const bans = key.bansByDay.get(day) ?? 0;
    return {
      day,
      ...(isMissing(day) ? missingFigures(bans) : figures({ ...(counted ?? NOTHING), bans })),
      "minute peak": counted === undefined ? null : peak(counted.peakMinute, counted.perMinute),
      "day peak": counted === undefined ? null : peak(counted.peakDay, counted.perDay),
    };
  });
  process.stdout.write(
    `${title}${range(report)}, admitted by day: ${plot(key, report.days)}\n\n` +
      `${formatTable(rows)}${provenance(report)}\n`,
  );
  if (report.days.some(isMissing)) process.stdout.write(`${legend(now)}\n`);
}

const NOTHING: UsageTotals = { admitted: 0, refused: 0, strikes: 0, bans: 0 };

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
  return { admitted, refused, strikes, bans };
}

/**
 * Returns a table cell with the number of requests in a key's fullest window, and the window's
 * limit. The cell is red if the window was full.
 */
function peak(count: number, limit: number): Cell {
  return figureCell(`${formatNumber(count)} of ${formatNumber(limit)}`, count >= limit);
}

/**
 * Returns the table cells of a key or day without a usage report. Bans are known without a report.
 */
function missingFigures(bans: number): Row {
  const missing = figureCell(MISSING);
  return { admitted: missing, refused: missing, strikes: missing, bans: bans || missing };
}

function banned({ bannedUntil }: KeyReport): string {
  return bannedUntil === null ? "" : `Banned until ${formatTime(bannedUntil)}.\n`;
}

function whenFiguresCome(now: Date): string {
  return `A key in use reports by ${formatTime(completeBy(now))}.`;
}

function legend(now: Date): string {
  return `${MISSING}: nothing was reported. ${whenFiguresCome(now)}`;
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
