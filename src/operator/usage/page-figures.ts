import { NEAR_LIMIT } from "./near-limit.ts";
import type { KeyReport, UsageReport, UsageTotals } from "./usage-report.ts";
import { isComplete, keysNear, totalsOf } from "./usage-report.ts";

/** A plot shows this many keys at most. */
const MAX_KEYS = 20;

/** The figures that the page of all keys shows. */
export interface PageFigures {
  readonly days: readonly PlanDayFigures[];
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

/** The counts of one day. */
export interface DayFigures {
  readonly day: string;
  /** Whether every key has reported this day, so that its counts will not grow. */
  readonly isComplete: boolean;
  readonly admitted: number;
  readonly refused: number;
  readonly bans: number;
}

/** The counts of all keys on one day. */
export interface PlanDayFigures extends DayFigures {
  /** The requests admitted. */
  readonly byPlan: Readonly<Record<KeyReport["plan"], number>>;
}

export interface Ranking {
  readonly keys: readonly KeyFigures[];
  /** The number of further keys, which the page does not show. */
  readonly leftOut: number;
}

export interface KeyFigures extends Omit<
  KeyReport,
  "days" | "limits" | "reportedAt" | "bannedUntil" | "bansByDay"
> {
  /** Whether another key has the same name. */
  readonly isNameShared: boolean;
}

/** Selects and adds up the figures of the page of all keys. */
export function pageFigures(report: UsageReport, now: Date): PageFigures {
  const { days, keys } = report;
  const fullest = ({ minutePeak, dayPeak }: KeyReport) => Math.max(minutePeak, dayPeak);
  const used = keys.filter(({ admitted, refused }) => admitted > 0 || refused > 0);
  const banned = keys.filter(({ bans }) => bans > 0);
  const rank = rankerOf(keys);
  return {
    days: figuresByDay(days, keys, now),
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

function figuresByDay(
  days: readonly string[],
  keys: readonly KeyReport[],
  now: Date,
): PlanDayFigures[] {
  const figures = new Map(
    days.map((day) => {
      const byPlan = { free: 0, pro: 0, business: 0, enterprise: 0 };
      const counts = { admitted: 0, refused: 0, bans: 0 };
      return [day, { day, isComplete: isComplete(day, now), ...counts, byPlan }];
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
    for (const [day, bans] of key.bansByDay) {
      const sum = figures.get(day);
      if (sum !== undefined) sum.bans += bans;
    }
  }
  return [...figures.values()];
}

/** @param all every key of the report, which tells the names that several keys have. */
function rankerOf(all: readonly KeyReport[]) {
  const byName = Map.groupBy(all, ({ name }) => name);
  return (keys: readonly KeyReport[], measure: (key: KeyReport) => number): Ranking => ({
    keys: keys
      .toSorted((one, other) => measure(other) - measure(one))
      .slice(0, MAX_KEYS)
      .map(({ id, name, plan, admitted, refused, strikes, bans, minutePeak, dayPeak }) => ({
        id,
        name,
        plan,
        admitted,
        refused,
        strikes,
        bans,
        minutePeak,
        dayPeak,
        isNameShared: (byName.get(name)?.length ?? 0) > 1,
      })),
    leftOut: Math.max(0, keys.length - MAX_KEYS),
  });
}
