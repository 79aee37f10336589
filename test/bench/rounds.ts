/** The participants of a comparison by name. Each function takes one measurement. */
type Contestants<Name extends string, Figure> = Readonly<Record<Name, () => Promise<Figure>>>;

/** A summary of several measurements. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/**
 * Measures the contestants in turns, so that other work on the machine affects all of them alike.
 * Every second round has the reverse sequence. Before the first round, each contestant runs once as
 * a warm-up, which is not measured.
 *
 * @returns the measurements of each contestant, round by round.
 */
export async function takeTurns<Name extends string, Figure>(
  rounds: number,
  contestants: Contestants<Name, Figure>,
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

/**
 * Divides each measurement of one contestant by the measurement of another contestant in the same
 * round.
 */
export function ratios(figures: readonly number[], others: readonly number[]): number[] {
  return figures.map((figure, round) => figure / (others[round] ?? Number.NaN));
}

export function spreadOf(figures: readonly number[]): Spread {
  const sorted = figures.toSorted((one, other) => one - other);
  const middle = sorted.slice(
    Math.floor((sorted.length - 1) / 2),
    Math.floor(sorted.length / 2) + 1,
  );
  const median = middle.reduce((sum, figure) => sum + figure, 0) / middle.length;
  return { median, min: sorted[0] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN };
}
