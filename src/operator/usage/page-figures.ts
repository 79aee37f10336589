import type { KeyReport, UsageReport, UsageTotals } from "./usage-report.ts";
import { keysNear, totalsOf } from "./usage-report.ts";

/** A plot shows this many keys at most. */
const MAX_KEYS = 20;

/** A key is near a limit from this share on. */
export const NEAR_LIMIT = 0.8;

/** The figures that the page of a usage report shows. */
export interface PageFigures {
  readonly days: readonly DayFigures[];
  readonly totals: UsageTotals;
  /** Numbers of keys: all, used, banned, and near a limit. */
  readonly keys: number;
  readonly usedKeys: number;
  readonly bannedKeys: number;
  readonly nearKeys: number;
  /** The keys with the most admissions, the most bans, and the fullest windows. */
  readonly busiest: Ranking;
  readonly banned: Ranking;
  readonly nearest: Ranking;
}

/** The counts of all keys on one day. */
export interface DayFigures {
  readonly day: string;
  readonly admitted: number;
  readonly refused: number;
  readonly byPlan: Readonly<Record<KeyReport["plan"], number>>;
}

export interface Ranking {
  readonly keys: readonly KeyFigures[];
  /** The number of further keys, which the page does not show. */
  readonly leftOut: number;
}

export type KeyFigures = Omit<KeyReport, "days" | "reportedAt" | "bannedUntil" | "bansByDay">;

/** Selects and adds up the figures of the page. */
export function pageFigures(report: UsageReport): PageFigures {
  const { days, keys } = report;
  const fullest = ({ minutePeak, dayPeak }: KeyReport) => Math.max(minutePeak, dayPeak);
  const used = keys.filter(({ admitted, refused }) => admitted > 0 || refused > 0);
  const banned = keys.filter(({ bans }) => bans > 0);
  return {
    days: figuresByDay(days, keys),
    totals: totalsOf(keys),
    keys: keys.length,
    usedKeys: used.length,
    bannedKeys: banned.length,
    nearKeys: keysNear(report, NEAR_LIMIT).length,
    busiest: rank(used, ({ admitted }) => admitted),
    banned: rank(banned, ({ bans, strikes }) => bans + strikes / Number.MAX_SAFE_INTEGER),
    nearest: rank(used, fullest),
  };
}

function figuresByDay(days: readonly string[], keys: readonly KeyReport[]): DayFigures[] {
  const figures = new Map(
    days.map((day) => {
      const byPlan = { free: 0, pro: 0, business: 0, enterprise: 0 };
      return [day, { day, admitted: 0, refused: 0, byPlan }];
    }),
  );
  for (const key of keys) {
    for (const { day, admitted, refused } of key.days) {
      const sum = figures.get(day);
      if (sum === undefined) continue;
      sum.admitted += admitted;
      sum.refused += refused;
      sum.byPlan[key.plan] += admitted;
    }
  }
  return [...figures.values()];
}

function rank(keys: readonly KeyReport[], measure: (key: KeyReport) => number): Ranking {
  const ranked = keys.toSorted((one, other) => measure(other) - measure(one));
  return {
    keys: ranked.slice(0, MAX_KEYS).map(figuresOf),
    leftOut: Math.max(0, ranked.length - MAX_KEYS),
  };
}

function figuresOf(report: KeyReport): KeyFigures {
  const { id, name, plan, admitted, refused, strikes, bans, minutePeak, dayPeak } = report;
  return { id, name, plan, admitted, refused, strikes, bans, minutePeak, dayPeak };
}
