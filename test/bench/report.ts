type Spread = Readonly<Record<"median" | "min" | "max", number>>;

/** A row of the table of results. `service` and `peer` are measurements with units. */
export interface Row {
  readonly what: string;
  readonly service: string;
  readonly peer: string;
  /** The ratio of the two measurements, to whose median the target applies. */
  readonly ratio: Spread | null;
  /** The ratio of processor times, peer to service. Other processes hardly affect this ratio. */
  readonly processorRatio?: Spread;
  readonly target?: { readonly atLeast: number } | { readonly atMost: number };
}

/**
 * Warms up each contestant, then measures all of them in every round, so that other work on the
 * machine affects them alike. Every second round has the reverse order.
 */
export async function takeTurns<Name extends string, Figure>(
  rounds: number,
  contestants: Readonly<Record<Name, () => Promise<Figure>>>,
): Promise<Record<Name, Figure[]>> {
  const names = Object.keys(contestants) as Name[];
  const figures = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<
    Name,
    Figure[]
  >;
  for (const name of names) await contestants[name]();
  for (let round = 0; round < rounds; round += 1) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      figures[name].push(await contestants[name]());
    }
  }
  return figures;
}

/** Returns the spread of the ratios of `figures` to `others`, with one ratio for each round. */
export function ratiosOf(figures: readonly number[] = [], others: readonly number[] = []): Spread {
  const ratios = figures.map((figure, round) => figure / (others[round] ?? Number.NaN));
  return { median: medianOf(ratios), min: Math.min(...ratios), max: Math.max(...ratios) };
}

export function medianOf(figures: readonly number[] = []): number {
  const sorted = figures.toSorted((one, other) => one - other);
  const middle = (sorted.length - 1) / 2;
  const at = (index: number) => sorted[index] ?? Number.NaN;
  return (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2;
}

/** Formats a number with three significant digits, or as an integer if it is 100 or more. */
export function number(value: number): string {
  const digits = Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
  return digits.toLocaleString("en");
}

export function toMarkdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  return [head, head.map(() => "---"), ...rows].map(line).join("");
}

export function resultTable(results: readonly Row[]): string {
  const head = ["What", "Service", "Peer", "Median (min–max)", "By processor time", "Target"];
  const rows = results.map(({ what, service, peer, ratio, processorRatio, target }) => {
    const text = (spread: Spread | null | undefined) =>
      spread ? `${number(spread.median)} (${number(spread.min)}–${number(spread.max)})` : "";
    return [what, service, peer, text(ratio), text(processorRatio), targetText(ratio, target)];
  });
  return toMarkdown(head, rows);
}

function targetText(ratio: Spread | null, target: Row["target"]): string {
  if (ratio === null || target === undefined) return "";
  const isFloor = "atLeast" in target;
  const bound = isFloor ? target.atLeast : target.atMost;
  const isMet = isFloor ? ratio.median >= bound : ratio.median <= bound;
  return `${isFloor ? "≥" : "≤"} ${number(bound)}: ${isMet ? "met" : "**not met**"}`;
}
