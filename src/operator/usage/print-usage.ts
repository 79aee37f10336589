import { Table } from "console-table-printer";
import sparkly from "sparkly";
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
  const isAnyBanned = report.keys.some(({ bannedUntil }) => bannedUntil !== null);
  const table = newTable([
    { name: "id", alignment: "left" },
    { name: "name", alignment: "left" },
    { name: "plan", alignment: "left" },
    ...FIGURE_COLUMNS,
    ...(isAnyBanned ? [{ name: "bannedUntil", title: "banned until" }] : []),
    { name: "plot", title: plotTitle(report), alignment: "left" },
  ]);
  for (const key of report.keys) {
    const { id, name, plan, minutePeak, dayPeak } = key;
    const isKnown = key.reportedAt !== null;
    table.addRow({
      id,
      name,
      plan,
      ...(isKnown ? figures(key) : missingFigures(key.bans)),
      ...(isKnown && { minutePeak: percent(minutePeak), dayPeak: percent(dayPeak) }),
      ...(isAnyBanned && { bannedUntil: key.bannedUntil?.toISOString() ?? "" }),
      plot: isKnown ? plot(key, report.days) : "",
    });
  }
  const isAnyMissing = report.keys.some(({ reportedAt }) => reportedAt === null);
  process.stdout.write(`${table.render()}\n${provenance(report)}\n`);
  if (isAnyMissing) process.stdout.write(`${legend(now)}\n`);
}

/** Prints a row for each day of one key. */
export function printUsageOfKey(key: KeyReport, report: UsageReport, now: Date): void {
  const title = `${key.id}, ${key.name} (${key.plan})\n${banned(key)}`;
  if (key.reportedAt === null && key.bans === 0) {
    process.stdout.write(
      `${title}No figures from ${report.days.at(0)} to ${report.days.at(-1)}. ${whenFiguresCome(now)}\n`,
    );
    return;
  }
  const isMissing = (day: string) => !byDay.has(day) && !isComplete(day, now);
  const table = newTable([{ name: "day", alignment: "left" }, ...FIGURE_COLUMNS]);
  const byDay = new Map(key.days.map((counted) => [counted.day, counted]));
  for (const day of report.days) {
    const counted = byDay.get(day);
    const bans = key.bansByDay.get(day) ?? 0;
    table.addRow({
      day,
      ...(isMissing(day) ? missingFigures(bans) : figures({ ...(counted ?? NOTHING), bans })),
      minutePeak: counted === undefined ? "" : `${counted.peakMinute} of ${counted.perMinute}`,
      dayPeak: counted === undefined ? "" : `${counted.peakDay} of ${counted.perDay}`,
    });
  }
  process.stdout.write(
    `${title}${plotTitle(report)}: ${plot(key, report.days)}\n` +
      `${table.render()}\n${provenance(report)}\n`,
  );
  if (report.days.some(isMissing)) process.stdout.write(`${legend(now)}\n`);
}

const NOTHING: UsageTotals = { admitted: 0, refused: 0, strikes: 0, bans: 0 };

const FIGURE_COLUMNS: readonly Column[] = [
  { name: "admitted" },
  { name: "refused" },
  { name: "strikes" },
  { name: "bans" },
  { name: "minutePeak", title: "minute peak" },
  { name: "dayPeak", title: "day peak" },
];

interface Column {
  readonly name: string;
  readonly title?: string;
  readonly alignment?: "left";
}

function newTable(columns: Column[]): Table {
  return new Table({ shouldDisableColors: true, columns });
}

function figures({ admitted, refused, strikes, bans }: UsageTotals): Record<string, string> {
  return {
    admitted: admitted.toLocaleString("en"),
    refused: refused.toLocaleString("en"),
    strikes: strikes.toLocaleString("en"),
    bans: bans.toLocaleString("en"),
  };
}

/** Returns the figures of a key or day without a report. Bans are known without a report. */
function missingFigures(bans: number): Record<string, string> {
  const missing = { admitted: MISSING, refused: MISSING, strikes: MISSING };
  return { ...missing, bans: bans === 0 ? MISSING : bans.toLocaleString("en") };
}

function banned({ bannedUntil }: KeyReport): string {
  return bannedUntil === null ? "" : `Banned until ${bannedUntil.toISOString()}.\n`;
}

function whenFiguresCome(now: Date): string {
  return `A key in use reports by ${completeBy(now).toISOString()}.`;
}

function legend(now: Date): string {
  return `${MISSING}: nothing was reported. ${whenFiguresCome(now)}`;
}

function plotTitle({ days }: UsageReport): string {
  return `admitted, ${days.at(0)} to ${days.at(-1)}`;
}

function plot(key: KeyReport, days: readonly string[]): string {
  const admitted = new Map(key.days.map((counted) => [counted.day, counted.admitted]));
  return sparkly(
    days.map((day) => admitted.get(day) ?? 0),
    { minimum: 0 },
  );
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function provenance({ reportedAt }: UsageReport): string {
  const asOf =
    reportedAt === null
      ? "Nothing was reported on these days."
      : `As reported until ${reportedAt.toISOString()}.`;
  return `${asOf} Each key reports once an hour while it is used; "refused" and "strikes" are lower bounds.`;
}
