import type { KeyDay } from "./client-day.ts";

const COUNTS = [
  "admitted",
  "refusedByObject",
  "refusedFromMemory",
  "refusedByBan",
  "bans",
  "cancellations",
  "keyLookUps",
  "reports",
] as const satisfies readonly (keyof KeyDay)[];

/** What a key does on a day, on average. */
export type DayMeans = Readonly<Record<(typeof COUNTS)[number], number>>;

/** The mean of days that count alike. */
export function meanDay(days: readonly DayMeans[]): DayMeans {
  return weighedDay(days.map((mean) => ({ weight: 1 / days.length, mean })));
}

/** The sum of days, each multiplied by its weight. */
export function weighedDay(
  parts: readonly { readonly weight: number; readonly mean: DayMeans }[],
): DayMeans {
  const sum = (name: (typeof COUNTS)[number]) =>
    parts.reduce((total, { weight, mean }) => total + weight * mean[name], 0);
  const sums = COUNTS.map((name): [string, number] => [name, sum(name)]);
  return Object.fromEntries(sums) as Record<(typeof COUNTS)[number], number>;
}
