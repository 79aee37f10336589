import {
  axisX,
  axisY,
  gridY,
  type Markish,
  plot,
  pointerX,
  rectY,
  ruleY,
  type RectYOptions,
  stackY,
  tip,
} from "@observablehq/plot";
import { NEAR_LIMIT } from "../usage/near-limit.ts";
import type { DayFigures, PageFigures } from "../usage/page-figures.ts";
import type { KeyDayFigures, KeyPageFigures, WindowFigures } from "../usage/key-page.ts";
import {
  axisCount,
  exactCount,
  LIMIT_LINE,
  NEAR_LINE,
  percentOf,
  PLAN_COLORS,
  PLOT_STYLE,
  TIP_STYLE,
} from "./plot-style.ts";

const DAY_MS = 86_400_000;
const TALL = 300;
const LOW = 150;
const MARGIN_LEFT = 64;
/** The right margin in pixels, which the right half of the last day's label needs. */
const MARGIN_RIGHT = 24;
/** The width of a day's label in pixels. */
const DAY_LABEL = 64;

const shortDay = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });
const longDay = new Intl.DateTimeFormat("en", { dateStyle: "full", timeZone: "UTC" });

/** Plots the requests admitted on each day, stacked by plan. */
export function trafficPlot({ days }: PageFigures, width: number): Element {
  const parts = days.flatMap(({ day, byPlan }) =>
    Object.entries(byPlan).map(([plan, admitted]) => ({ day, plan, admitted })),
  );
  const bars = stackY({
    ...dayBars(days, width),
    y: "admitted",
    fill: "plan",
    order: [...PLAN_COLORS.domain],
  });
  return dayPlot({
    days,
    width,
    height: TALL,
    ariaLabel: "Requests admitted by day and plan, as stacked bars.",
    value: ({ admitted }) => admitted,
    bars: [rectY(parts, bars)],
    tip: ({ byPlan, admitted }) => [
      ...Object.entries(byPlan).map(([plan, count]) => `${plan}: ${exactCount(count)}`),
      `in all: ${exactCount(admitted)}`,
    ],
  });
}

/** Plots the requests admitted on each day. */
export function admittedPlot({ days }: KeyPageFigures, width: number): Element {
  return countPlot({
    days,
    width,
    height: TALL,
    color: "admitted",
    ariaLabel: "Requests admitted by day, as bars.",
    value: ({ admitted }) => admitted,
    tip: ({ admitted }) => [`admitted: ${exactCount(admitted)}`],
  });
}

/** Plots the requests refused on each day. */
export function refusedPlot({ days }: Days, width: number): Element {
  return countPlot({
    days,
    width,
    height: LOW,
    color: "refused",
    ariaLabel: "Requests refused by day, as bars.",
    value: ({ refused }) => refused,
    tip: ({ admitted, refused }) => [
      `refused: ${exactCount(refused)}`,
      `admitted: ${exactCount(admitted)}`,
    ],
  });
}

/** Plots the bans that began on each day. */
export function bansPlot({ days }: Days, width: number): Element {
  return countPlot({
    days,
    width,
    height: LOW,
    color: "banned",
    ariaLabel: "Bans by day, as bars.",
    value: ({ bans }) => bans,
    tip: ({ bans }) => [`bans: ${exactCount(bans)}`],
  });
}

/** Plots the requests in a key's fullest minute window of each day, and the window's limit. */
export function minutePlot({ days }: KeyPageFigures, width: number): Element {
  return windowPlot(days, width, "minute", ({ minute }) => minute);
}

/** Plots the requests in a key's fullest day window of each day, and the window's limit. */
export function dayWindowPlot({ days }: KeyPageFigures, width: number): Element {
  return windowPlot(days, width, "day", ({ dayWindow }) => dayWindow);
}

interface Days {
  readonly days: readonly DayFigures[];
}

function windowPlot(
  days: readonly KeyDayFigures[],
  width: number,
  color: "minute" | "day",
  of: (day: KeyDayFigures) => WindowFigures,
): Element {
  const limit = (day: KeyDayFigures) => of(day).limit;
  return countPlot({
    days,
    width,
    height: TALL,
    color,
    ariaLabel: `The fullest ${color} of each day, as bars below a line for the limit.`,
    value: (day) => of(day).peak,
    tip: (day) => [
      `fullest ${color}: ${exactCount(of(day).peak)}`,
      `limit: ${exactCount(limit(day))} (${percentOf(of(day).peak / limit(day))})`,
    ],
    limit,
  });
}

interface DayPlot<Day extends DayFigures> {
  readonly days: readonly Day[];
  readonly width: number;
  readonly height: number;
  readonly ariaLabel: string;
  /** Returns the count that a day's bar shows. */
  readonly value: (day: Day) => number;
  readonly tip: (day: Day) => string[];
  /**
   * Returns the rate limit on a day. The plot shows the limit as a line, with a second line at 80 %
   * of the limit.
   */
  readonly limit?: (day: Day) => number;
}

/** Plots one number for each day as a bar. */
function countPlot<Day extends DayFigures>(
  figures: DayPlot<Day> & { readonly color: string },
): Element {
  const { days, width, color, value } = figures;
  const bars = rectY(days, { ...dayBars(days, width), y: value, fill: `var(--${color})` });
  return dayPlot({ ...figures, bars: [bars] });
}

/**
 * Plots the given bars with axes, limit lines and tooltips. Hatches the bars of days with reports
 * to come.
 */
function dayPlot<Day extends DayFigures>({
  days,
  width,
  height,
  ariaLabel,
  value,
  tip: lines,
  bars,
  limit,
}: DayPlot<Day> & { readonly bars: readonly Markish[] }): Element {
  const [first, last] = [days[0]?.day ?? "", days.at(-1)?.day ?? ""];
  const incomplete = days.filter(({ isComplete }) => !isComplete);
  const max = Math.max(...days.map(limit ?? value), ...days.map(value));
  // Limits the number of ticks to the largest count, so that each tick is at a whole number.
  const ticks = Math.min(height === LOW ? 3 : 5, max);
  return plot({
    ...PLOT_STYLE,
    width,
    height,
    marginLeft: MARGIN_LEFT,
    marginRight: MARGIN_RIGHT,
    ariaLabel,
    color: PLAN_COLORS,
    x: {
      type: "utc",
      domain: [startOf(first), new Date(startOf(last).getTime() + DAY_MS)],
    },
    y: { nice: ticks },
    marks: [
      ...dayAxes(days, width, ticks),
      ...bars,
      rectY(incomplete, {
        ...dayBars(days, width),
        y: value,
        fill: "url(#incomplete)",
        ariaDescription: "hatch",
      }),
      ...(limit === undefined ? [] : limitLines(days, width, limit)),
      ruleY([0]),
      tip(
        days,
        pointerX({
          x: ({ day }: Day) => noonOf(day),
          y: value,
          title: (day: Day) =>
            [
              longDay.format(noonOf(day.day)),
              ...lines(day),
              ...(day.isComplete ? [] : ["reports to come"]),
            ].join("\n"),
          ...TIP_STYLE,
        }),
      ),
    ],
  });
}

/**
 * Returns options that make each bar as wide as its day, with a gap if the bars are wide enough.
 */
function dayBars(days: readonly DayFigures[], width: number) {
  const inset = width / days.length > 8 ? 1 : 0;
  return {
    x1: ({ day }: { day: string }) => startOf(day),
    x2: ({ day }: { day: string }) => new Date(startOf(day).getTime() + DAY_MS),
    insetLeft: inset,
    insetRight: inset,
  } satisfies RectYOptions;
}

function limitLines<Day extends DayFigures>(
  days: readonly Day[],
  width: number,
  limit: (day: Day) => number,
) {
  const { x1, x2 } = dayBars(days, width);
  const near = { x1, x2, y: (day: Day) => NEAR_LIMIT * limit(day) };
  return [
    // A wider line in the background colour separates the dashed line at 80 % of the limit from
    // bars of a similar colour.
    ruleY(days, { ...near, stroke: "var(--panel)", strokeWidth: 4 }),
    ruleY(days, { ...near, ...NEAR_LINE }),
    ruleY(days, { x1, x2, y: limit, ...LIMIT_LINE }),
  ];
}

/** Returns the axes and the grid. Labels as many days as fit, each below the middle of its bar. */
function dayAxes(days: readonly DayFigures[], width: number, ticks: number) {
  const step = Math.max(
    1,
    Math.ceil((days.length * DAY_LABEL) / (width - MARGIN_LEFT - MARGIN_RIGHT)),
  );
  const labelled = days.filter((_, index) => (days.length - 1 - index) % step === 0);
  return [
    gridY({ ticks }),
    axisY({ ticks, label: null, tickSize: 0, tickFormat: axisCount }),
    axisX(
      labelled.map(({ day }) => noonOf(day)),
      {
        label: null,
        tickSize: 0,
        tickFormat: (noon: Date) => shortDay.format(noon),
      },
    ),
  ];
}

function startOf(day: string): Date {
  return new Date(`${day}T00:00:00Z`);
}

function noonOf(day: string): Date {
  return new Date(`${day}T12:00:00Z`);
}
