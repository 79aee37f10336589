import { html } from "hono/html";
import { NEAR_LIMIT } from "./near-limit.ts";
import type { DayFigures } from "./page-figures.ts";
import {
  count,
  countTiles,
  dayTime,
  incomplete,
  pageBody,
  percentRefused,
  refusals,
  type Section,
  type Tile,
} from "./page-parts.ts";
import { type Column, dataTable } from "./page-table.ts";
import { isComplete, type KeyReport, type UsageReport } from "./usage-report.ts";

/** The figures on the usage page of one key. */
export interface KeyPageFigures {
  readonly days: readonly KeyDayFigures[];
}

/** The counts of one key on one day. */
export interface KeyDayFigures extends DayFigures {
  /**
   * True if the counts are known: either the key has reported the day, or the time for reports has
   * passed. In the second case, the key was not used, and its counts are 0.
   */
  readonly isKnown: boolean;
  readonly strikes: number;
  readonly minute: WindowFigures;
  readonly dayWindow: WindowFigures;
}

/** The number of requests in the fullest window of a day, and the window's limit. */
export interface WindowFigures {
  readonly peak: number;
  readonly limit: number;
}

/**
 * Selects the figures for the usage page of one key. A day without a report gets the limits of the
 * previous day.
 */
export function keyPageFigures(key: KeyReport, { days }: UsageReport, now: Date): KeyPageFigures {
  const reported = new Map(key.days.map((counted) => [counted.day, counted]));
  let limits = key.days[0] ?? key.limits;
  return {
    days: days.map((day) => {
      const counted = reported.get(day);
      const { admitted = 0, refused = 0, strikes = 0, peakMinute = 0, peakDay = 0 } = counted ?? {};
      limits = counted ?? limits;
      return {
        day,
        isComplete: isComplete(day, now),
        isKnown: counted !== undefined || isComplete(day, now),
        admitted,
        refused,
        strikes,
        bans: key.bansByDay.get(day) ?? 0,
        minute: { peak: peakMinute, limit: limits.perMinute },
        dayWindow: { peak: peakDay, limit: limits.perDay },
      };
    }),
  };
}

/**
 * Writes the body of a key's usage page: the totals, then each plot with its legend and a table.
 */
export function keyPageSections(key: KeyReport, { days }: KeyPageFigures): ReturnType<typeof html> {
  const sections = [
    admittedByDay(key, days),
    refusals(days, key, refusalTable(days)),
    fullest("minute", key, days, ({ minute }) => minute),
    fullest("day", key, days, ({ dayWindow }) => dayWindow),
  ];
  return pageBody(tiles(key, days), sections, days.length);
}

function tiles(key: KeyReport, days: readonly KeyDayFigures[]): Tile[] {
  const fullestTile = (name: string, of: (day: KeyDayFigures) => WindowFigures): Tile => {
    const share = (day: KeyDayFigures) => Math.min(1, of(day).peak / of(day).limit);
    const fullestDay = days.reduce((one, other) => (share(other) > share(one) ? other : one));
    const { peak, limit } = of(fullestDay);
    if (peak === 0) return [name, "0 %", "of its limit"];
    return [
      name,
      `${Math.round(share(fullestDay) * 100)} %`,
      html`${count(peak)} of ${count(limit)}, ${dayTime(fullestDay.day)}`,
    ];
  };
  return [
    ...countTiles(key, "that began"),
    fullestTile("Fullest minute", ({ minute }) => minute),
    fullestTile("Fullest day", ({ dayWindow }) => dayWindow),
  ];
}

function admittedByDay({ admitted }: KeyReport, days: readonly KeyDayFigures[]): Section {
  return {
    title: "Requests admitted",
    text: "By day in UTC.",
    plots: [{ name: "admitted", legend: [["admitted", "admitted"], ...incomplete(days)] }],
    table: dataTable("Requests admitted by day", days, [
      DAY,
      ["admitted", (day) => known(day, day.admitted)],
    ]),
    none: admitted === 0 && "No request was admitted on these days.",
  };
}

function refusalTable(days: readonly KeyDayFigures[]) {
  return dataTable("Requests refused, strikes and bans by day", days, [
    DAY,
    ["refused", (day) => known(day, day.refused)],
    ["of all", (day) => known(day, percentRefused(day))],
    ["strikes", (day) => known(day, day.strikes)],
    // Shows bans even if the key has not reported the day, because bans are stored immediately.
    ["bans", ({ bans }) => bans],
  ]);
}

function fullest(
  name: "minute" | "day",
  { limits, reportedAt }: KeyReport,
  days: readonly KeyDayFigures[],
  of: (day: KeyDayFigures) => WindowFigures,
): Section {
  const limit = name === "minute" ? limits.perMinute : limits.perDay;
  return {
    title: `The fullest ${name} window of each day`,
    text:
      name === "minute"
        ? "The most requests that a minute admitted, and the limit on that day."
        : "The most requests that a day window admitted, and the limit on that day. A day window opens with a request, not at midnight.",
    plots: [
      {
        name,
        legend: [
          [name, `fullest ${name} window`],
          ["near", `near the limit, ${NEAR_LIMIT * 100} %`, "level dashed"],
          ["refused", `the limit, now ${count(limit)}`, "level line"],
          ...incomplete(days),
        ],
      },
    ],
    table: dataTable(`The fullest ${name} window of each day`, days, [
      DAY,
      ["requests", (day) => known(day, of(day).peak)],
      ["limit", (day) => of(day).limit],
      ["of it", (day) => known(day, `${Math.round((of(day).peak / of(day).limit) * 100)} %`)],
    ]),
    none: reportedAt === null && "The key reported nothing on these days.",
  };
}

const DAY: Column<KeyDayFigures> = ["day", ({ day }) => day];

/** Returns the figure of a day, or a dash if the key has not reported this day yet. */
function known(day: KeyDayFigures, figure: string | number): string | number {
  return day.isKnown ? figure : "–";
}
