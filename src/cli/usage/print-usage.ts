import { Table } from "console-table-printer";
import sparkly from "sparkly";
import type { KeyReport, UsageReport, UsageTotals } from "../../usage/usage-report.ts";

/** Prints a row for each key, the busiest first, with a plot of what was admitted day by day. */
export function printUsageOfKeys(report: UsageReport): void {
  if (report.keys.length === 0) {
    process.stdout.write("There are no keys yet.\n");
    return;
  }
  const table = newTable([
    { name: "id", alignment: "left" },
    { name: "name", alignment: "left" },
    { name: "plan", alignment: "left" },
    ...FIGURE_COLUMNS,
    { name: "plot", title: plotTitle(report), alignment: "left" },
  ]);
  for (const key of report.keys) {
    const { id, name, plan, minutePeak, dayPeak } = key;
    const peaks = { minutePeak: percent(minutePeak), dayPeak: percent(dayPeak) };
    table.addRow({ id, name, plan, ...figures(key), ...peaks, plot: plot(key, report.days) });
  }
  process.stdout.write(`${table.render()}\n${provenance(report)}\n`);
}

/** Prints a row for each day of one key. */
export function printUsageOfKey(key: KeyReport, report: UsageReport): void {
  const table = newTable([{ name: "day", alignment: "left" }, ...FIGURE_COLUMNS]);
  const byDay = new Map(key.days.map((counted) => [counted.day, counted]));
  for (const day of report.days) {
    const counted = byDay.get(day);
    table.addRow({
      day,
      ...figures(counted ?? NOTHING),
      minutePeak: counted === undefined ? "" : `${counted.peakMinute} of ${counted.perMinute}`,
      dayPeak: counted === undefined ? "" : `${counted.peakDay} of ${counted.perDay}`,
    });
  }
  process.stdout.write(
    `${key.id}, ${key.name} (${key.plan})\n${plotTitle(report)}: ${plot(key, report.days)}\n` +
      `${table.render()}\n${provenance(report)}\n`,
  );
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
      ? "Nothing was reported in these days."
      : `As reported until ${reportedAt.toISOString()}.`;
  return `${asOf} Each key reports once an hour while it is used; refused and strikes are at least as many.`;
}
