import { NEAR_LIMIT } from "./near-limit.ts";
import type { KeyReport, UsageReport, UsageTotals } from "./usage-report.ts";
import { isComplete, keysNear, summarize, totalsOf } from "./usage-report.ts";

/** The largest number of keys in a plot. */
const MAX_KEYS = 20;

/** The figures on the usage page of all keys. */
export interface PageFigures {
  readonly days: readonly PlanDayFigures[];
  readonly totals: UsageTotals;
  /**
   * The number of all keys. The next three fields count used keys, banned keys, and keys near a
   * limit.
   */
  readonly keys: number;
  readonly usedKeys: number;
  readonly bannedKeys: number;
  readonly nearKeys: number;
  /** The keys with the most admitted requests. */
  readonly busiest: Ranking;
  /** The keys with the most bans. */
  readonly banned: Ranking;
  /** The keys whose fullest minute or day window used the largest share of its limit. */
  readonly nearest: Ranking;
}

/** The counts of one day. */
export interface DayFigures {
  readonly day: string;
  /** True if every key has had time to report this day, so that the counts here are final. */
  readonly isComplete: boolean;
  readonly admitted: number;
  readonly refused: number;
  readonly bans: number;
}

/** The counts of all keys on one day. */
export interface PlanDayFigures extends DayFigures {
  /** The number of admitted requests for each plan. */
  readonly byPlan: Readonly<Record<KeyReport["plan"], number>>;
}

export interface Ranking {
  readonly keys: readonly KeyFigures[];
  /** The number of further keys in this ranking, which the page leaves out. */
  readonly leftOut: number;
}

export interface KeyFigures extends Omit<
  KeyReport,
  "days" | "limits" | "reportedAt" | "bannedUntil" | "bansByDay"
> {
  /** Whether another key has the same name. */
  readonly isNameShared: boolean;
}

/** Calculates the figures for the usage page of all keys. */
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

/**
 * Returns a function that ranks keys by a measure and keeps the first `MAX_KEYS`.
 *
 * @param all every key of the report, to find names that several keys have.
 */
function rankerOf(all: readonly KeyReport[]) {
  const byName = Map.groupBy(all, ({ name }) => name);
  return (keys: readonly KeyReport[], measure: (key: KeyReport) => number): Ranking => ({
    keys: keys
      .toSorted((one, other) => measure(other) - measure(one))
      .slice(0, MAX_KEYS)
      .map((key) => ({
        ...summarize(key),
        isNameShared: (byName.get(key.name)?.length ?? 0) > 1,
      })),
    leftOut: Math.max(0, keys.length - MAX_KEYS),
  });
}
