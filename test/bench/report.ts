export type Spread = Readonly<Record<"median" | "min" | "max", number>>;

/** A row of the table of results. `service` and `peer` are measurements with units. */
export interface Result {
  readonly what: string;
  readonly service: string;
  readonly peer: string;
  /** Usually the ratio of the two measurements. The target applies to the median. */
  readonly ratio: Spread;
  /** The ratio of processor times, peer to service. Other processes hardly affect this ratio. */
  readonly processorRatio?: Spread;
  readonly target: { readonly atLeast: number } | { readonly atMost: number };
}

export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

function isMet({ ratio, target }: Result): boolean {
  return "atLeast" in target ? ratio.median >= target.atLeast : ratio.median <= target.atMost;
}

export function resultTable(results: readonly Result[]): Table {
  return {
    head: ["What", "Service", "Peer", "Median (min–max)", "By processor time", "Target", "Met"],
    rows: results.map((result) => [
      result.what,
      result.service,
      result.peer,
      spreadText(result.ratio),
      result.processorRatio === undefined ? "" : spreadText(result.processorRatio),
      targetText(result),
      isMet(result) ? "yes" : "**no**",
    ]),
  };
}

export function toMarkdown({ head, rows }: Table): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  return [head, head.map(() => "---"), ...rows].map(line).join("");
}

export function spreadOf(figures: readonly number[]): Spread {
  const sorted = figures.toSorted((one, other) => one - other);
  const at = (index: number) => sorted[index] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  const median = (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2;
  return { median, min: at(0), max: at(sorted.length - 1) };
}

/** Formats a number with three significant digits, or as an integer if it is 100 or more. */
export function number(value: number): string {
  const digits = Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
  return digits.toLocaleString("en");
}

export function medianText(figures: readonly number[], unit: string): string {
  return `${number(spreadOf(figures).median)} ${unit}`;
}

function spreadText({ median, min, max }: Spread): string {
  return min === max ? number(median) : `${number(median)} (${number(min)}–${number(max)})`;
}

function targetText({ target }: Result): string {
  return "atLeast" in target ? `≥ ${number(target.atLeast)}` : `≤ ${number(target.atMost)}`;
}
