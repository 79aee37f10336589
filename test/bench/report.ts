import type { Operations } from "./observed/counted-service.ts";
import { type Spread, spreadOf } from "./rounds.ts";

/** A row in the results table of the benchmark. */
export interface Result {
  readonly what: string;
  /** The measurement of the service, with its unit. */
  readonly service: string;
  /**
   * The measurement of the peer (what the service is compared with), with its unit; empty if there
   * is no peer.
   */
  readonly peer: string;
  /** The number to compare with `target`, usually the ratio of the two measurements. */
  readonly ratio: Spread | null;
  /** The ratio of the service's and the peer's processor time, which other work hardly affects. */
  readonly processorRatio?: Spread;
  readonly target: { readonly atLeast: number } | { readonly atMost: number } | null;
}

/** The cost of one kind of request. */
export interface Cost extends Operations {
  readonly request: string;
  readonly dollarsPerMillion: number;
  /** The price in dollars of the log lines and data points of a million requests. */
  readonly telemetryDollarsPerMillion: number;
}

/** The duration of one kind of request while the calls of some bindings are delayed. */
export interface Distance {
  readonly request: string;
  readonly far: string;
  readonly ms: number;
}

export interface Report {
  readonly results: readonly Result[];
  readonly costs: readonly Cost[];
  readonly distances?: readonly Distance[];
}

/** Returns whether the result meets its target; `null` if it has no target or no ratio. */
export function isMet({ ratio, target }: Result): boolean | null {
  if (ratio === null || target === null) return null;
  return "atLeast" in target ? ratio.median >= target.atLeast : ratio.median <= target.atMost;
}

/**
 * Formats the benchmark's report as Markdown tables, the source of the figures in
 * docs/performance.md.
 */
export function toMarkdown({ results, costs, distances = [] }: Report): string {
  const tables = [];
  if (results.length > 0) {
    tables.push(
      table(
        [
          "What",
          "Service",
          "Held against",
          "Median (min–max)",
          "By processor time",
          "Target",
          "Met",
        ],
        results.map((result) => [
          result.what,
          result.service,
          result.peer,
          result.ratio === null ? "" : spreadText(result.ratio),
          result.processorRatio === undefined ? "" : spreadText(result.processorRatio),
          targetText(result),
          { true: "yes", false: "**no**", null: "" }[`${isMet(result)}`],
        ]),
      ),
    );
  }
  if (costs.length > 0) {
    tables.push(
      table(
        [
          "Request",
          "Object calls",
          "Object rows written",
          "D1 queries",
          "D1 rows read",
          "D1 rows written",
          "Data points",
          "Log bytes",
          "$ per million",
          "$ with data points and log",
        ],
        costs.map((cost) => [
          cost.request,
          ...[
            cost.objectCalls,
            cost.objectRowsWritten,
            cost.queries,
            cost.rowsRead,
            cost.rowsWritten,
            cost.dataPoints,
            cost.logBytes,
          ].map(number),
          cost.dollarsPerMillion.toFixed(3),
          (cost.dollarsPerMillion + cost.telemetryDollarsPerMillion).toFixed(3),
        ]),
      ),
    );
  }
  if (distances.length > 0) tables.push(distanceTable(distances));
  return tables.join("\n\n");
}

/**
 * Formats a table with a row for each kind of request. Each column names the part of the service
 * that was far away during the measurement.
 */
function distanceTable(distances: readonly Distance[]): string {
  const places = [...new Set(distances.map(({ far }) => far))];
  const rows = Map.groupBy(distances, ({ request }) => request);
  return table(
    ["Request", ...places.map((far) => `${far} far away`)],
    [...rows].map(([request, times]) => [request, ...times.map(({ ms }) => `${number(ms)} ms`)]),
  );
}

/** Formats a number with three significant digits, or as an integer if it is 100 or more. */
export function number(value: number): string {
  const digits = Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
  return digits.toLocaleString("en");
}

/** Formats the median of some measurements with their unit. */
export function medianText(figures: readonly number[], unit: string): string {
  return `${number(spreadOf(figures).median)} ${unit}`;
}

function spreadText({ median, min, max }: Spread): string {
  return min === max ? number(median) : `${number(median)} (${number(min)}–${number(max)})`;
}

function targetText({ target }: Result): string {
  if (target === null) return "";
  return "atLeast" in target ? `≥ ${number(target.atLeast)}` : `≤ ${number(target.atMost)}`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
