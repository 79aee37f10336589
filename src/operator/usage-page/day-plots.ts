import {
  axisX,
  axisY,
  gridY,
  plot,
  pointerX,
  rectY,
  ruleY,
  type RectYOptions,
  stackY,
  tip,
} from "@observablehq/plot";
import type { DayFigures, PageFigures } from "../usage/page-figures.ts";
import { compactCount, exactCount, PLAN_COLORS, PLOT_STYLE, TIP_STYLE } from "./plot-style.ts";

const DAY_MS = 86_400_000;
const HEIGHT = 300;
const MARGIN_LEFT = 48;
/** Half of the last day's label. */
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
  return plot({
    ...dayPlot(days, width, "Requests admitted by day and plan, as stacked bars."),
    color: PLAN_COLORS,
    marks: [
      ...dayAxes(days, width),
      rectY(
        parts,
        stackY({
          ...dayBars(days, width),
          y: "admitted",
          fill: "plan",
          order: [...PLAN_COLORS.domain],
        }),
      ),
      ruleY([0]),
      dayTip(days, ({ byPlan, admitted }) => [
        ...Object.entries(byPlan).map(([plan, count]) => `${plan}: ${exactCount(count)}`),
        `in all: ${exactCount(admitted)}`,
      ]),
    ],
  });
}

/** Plots the requests of each day: admitted above the line, refused below it. */
export function outcomesPlot({ days }: PageFigures, width: number): Element {
  const bars = dayBars(days, width);
  return plot({
    ...dayPlot(days, width, "Requests admitted, above the line, and refused, below it, by day."),
    marks: [
      ...dayAxes(days, width),
      rectY(days, { ...bars, y: "admitted", fill: "var(--admitted)" }),
      rectY(days, { ...bars, y: ({ refused }: DayFigures) => -refused, fill: "var(--refused)" }),
      ruleY([0]),
      dayTip(days, ({ admitted, refused }) => [
        `admitted: ${exactCount(admitted)}`,
        `refused: ${exactCount(refused)}`,
      ]),
    ],
  });
}

/** Makes each bar as wide as its day, with a gap if there is room for one. */
function dayBars(days: readonly DayFigures[], width: number) {
  const inset = width / days.length > 8 ? 1 : 0;
  return {
    x1: ({ day }: { day: string }) => startOf(day),
    x2: ({ day }: { day: string }) => new Date(startOf(day).getTime() + DAY_MS),
    insetLeft: inset,
    insetRight: inset,
  } satisfies RectYOptions;
}

function dayPlot(days: readonly DayFigures[], width: number, ariaLabel: string) {
  const [first, last] = [days[0]?.day ?? "", days.at(-1)?.day ?? ""];
  return {
    ...PLOT_STYLE,
    width,
    height: HEIGHT,
    marginLeft: MARGIN_LEFT,
    marginRight: MARGIN_RIGHT,
    ariaLabel,
    x: {
      type: "utc",
      domain: [startOf(first), new Date(startOf(last).getTime() + DAY_MS)],
    },
    y: { nice: true },
  } as const;
}

/** Labels as many days as there is room for, each below the middle of its bar. */
function dayAxes(days: readonly DayFigures[], width: number) {
  const step = Math.max(
    1,
    Math.ceil((days.length * DAY_LABEL) / (width - MARGIN_LEFT - MARGIN_RIGHT)),
  );
  const labelled = days.filter((_, index) => (days.length - 1 - index) % step === 0);
  const ticks = Math.min(5, Math.max(...days.map(({ admitted, refused }) => admitted + refused)));
  return [
    gridY({ ticks }),
    axisY({
      ticks,
      label: null,
      tickSize: 0,
      tickFormat: (n: number) => compactCount(Math.abs(n)),
    }),
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

function dayTip(days: readonly DayFigures[], lines: (day: DayFigures) => string[]) {
  return tip(
    days,
    pointerX({
      x: ({ day }: DayFigures) => noonOf(day),
      y: "admitted",
      title: (day: DayFigures) => [longDay.format(noonOf(day.day)), ...lines(day)].join("\n"),
      ...TIP_STYLE,
    }),
  );
}

function startOf(day: string): Date {
  return new Date(`${day}T00:00:00Z`);
}

function noonOf(day: string): Date {
  return new Date(`${day}T12:00:00Z`);
}
