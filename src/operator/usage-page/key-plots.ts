import {
  axisX,
  axisY,
  barX,
  dot,
  gridX,
  plot,
  pointer,
  ruleX,
  ruleY,
  text,
  tip,
} from "@observablehq/plot";
import { NEAR_LIMIT } from "../usage/near-limit.ts";
import type { KeyFigures, PageFigures } from "../usage/page-figures.ts";
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

const ROW = 34;
const FONT_SIZE = 13;
const ID_FONT_SIZE = 11;
const MARGIN_TOP = 8;
const AXIS = 28;

/** Plots the keys with the most admissions, in the colours of their plans. */
export function busiestPlot({ busiest: { keys } }: PageFigures, width: number): Element {
  const ends = { x: "admitted", y: "id" } as const;
  return plot({
    ...keyPlot(keys, width, "The keys with the most requests admitted, as bars."),
    marginRight: 76,
    color: PLAN_COLORS,
    marks: [
      ...keyAxes(keys, width, keys[0]?.admitted ?? 0),
      barX(keys, { ...ends, fill: "plan", insetTop: 2, insetBottom: 2 }),
      text(keys, {
        ...ends,
        text: ({ admitted }: KeyFigures) => exactCount(admitted),
        ...END_LABEL,
      }),
      ruleX([0]),
      keyTip(keys, (key) => key.admitted),
    ],
  });
}

/** Plots the keys with the most bans. */
export function bannedPlot({ banned: { keys } }: PageFigures, width: number): Element {
  const ends = { x: "bans", y: "id" } as const;
  return plot({
    ...keyPlot(keys, width, "The keys with the most bans, as bars."),
    marginRight: 110,
    marks: [
      ...keyAxes(keys, width, keys[0]?.bans ?? 0),
      barX(keys, { ...ends, fill: "var(--banned)", insetTop: 2, insetBottom: 2 }),
      text(keys, {
        ...ends,
        text: ({ strikes }: KeyFigures) =>
          `${exactCount(strikes)} ${strikes === 1 ? "strike" : "strikes"}`,
        ...END_LABEL,
      }),
      ruleX([0]),
      keyTip(keys, (key) => key.bans),
    ],
  });
}

/** Plots how much of its limits each key used in its fullest minute and day windows. */
export function limitsPlot({ nearest: { keys } }: PageFigures, width: number): Element {
  return plot({
    ...keyPlot(keys, width, "How near keys came to their limits per minute and per day, as dots."),
    marginRight: 24,
    x: { domain: [0, 1] },
    marks: [
      gridX({ ticks: width > 480 ? 5 : 2 }),
      axisX({ ticks: width > 480 ? 5 : 2, tickSize: 0, label: null, tickFormat: percentOf }),
      ...nameAxis(keys, width),
      ruleX([NEAR_LIMIT], NEAR_LINE),
      ruleX([1], LIMIT_LINE),
      ruleY(keys, { x1: "minutePeak", x2: "dayPeak", y: "id", stroke: "var(--line-strong)" }),
      // A ring for the minute and a smaller diamond for the day are both visible at the same place.
      dot(keys, {
        x: "minutePeak",
        y: "id",
        r: 7,
        stroke: "var(--minute)",
        strokeWidth: 2.5,
        fill: "var(--panel)",
      }),
      dot(keys, { x: "dayPeak", y: "id", r: 4, symbol: "diamond", fill: "var(--day)" }),
      keyTip(keys, (key) => Math.max(key.minutePeak, key.dayPeak)),
    ],
  });
}

const END_LABEL = { textAnchor: "start", dx: 6, fill: "currentColor" } as const;

function keyPlot(keys: readonly KeyFigures[], width: number, ariaLabel: string) {
  return {
    ...PLOT_STYLE,
    width,
    height: keys.length * ROW + MARGIN_TOP + AXIS,
    marginTop: MARGIN_TOP,
    marginBottom: AXIS,
    marginLeft: nameWidth(width),
    ariaLabel,
    y: { domain: keys.map(({ id }) => id), type: "band" },
  } as const;
}

/**
 * Returns the axes and the grid of a plot of keys.
 *
 * @param max the largest count. There are at most `max` ticks, so each tick is at a whole number.
 */
function keyAxes(keys: readonly KeyFigures[], width: number, max: number) {
  const ticks = Math.min(width > 480 ? 4 : 2, max);
  return [
    gridX({ ticks }),
    axisX({ ticks, tickSize: 0, label: null, tickFormat: axisCount }),
    ...nameAxis(keys, width),
  ];
}

/** Labels keys with their names. If several keys have the same name, adds the id below the name. */
function nameAxis(keys: readonly KeyFigures[], width: number) {
  const byId = new Map(keys.map((key) => [key.id, key]));
  const [shared, unique] = [true, false].map((isNameShared) =>
    keys.filter((key) => key.isNameShared === isNameShared).map(({ id }) => id),
  );
  const name = (id: string) => byId.get(id)?.name ?? id;
  const label = (ids: readonly string[] = [], tickFormat: (id: string) => string, options = {}) =>
    axisY(ids, {
      label: null,
      tickSize: 0,
      tickPadding: 8,
      tickFormat,
      // Observable Plot measures text in a narrow font. The factor 0.8 leaves room for the page's
      // font.
      lineWidth: (0.8 * (nameWidth(width) - 8)) / FONT_SIZE,
      textOverflow: "ellipsis",
      ...options,
    });
  return [
    label(unique, name),
    label(shared, name, { dy: -7 }),
    label(shared, (id) => id, {
      dy: 8,
      fontSize: ID_FONT_SIZE,
      fill: "var(--muted)",
      lineWidth: (0.85 * (nameWidth(width) - 8)) / ID_FONT_SIZE,
    }),
  ];
}

function nameWidth(width: number): number {
  return Math.min(180, Math.round(width * 0.36));
}

function keyTip(keys: readonly KeyFigures[], x: (key: KeyFigures) => number) {
  return tip(keys, pointer({ x, y: "id", title: describe, ...TIP_STYLE }));
}

function describe(key: KeyFigures): string {
  const { name, id, plan, admitted, refused, strikes, bans, minutePeak, dayPeak } = key;
  return [
    name,
    `${id}, ${plan}`,
    `admitted: ${exactCount(admitted)}`,
    `refused: ${exactCount(refused)}`,
    `strikes: ${exactCount(strikes)}, bans: ${exactCount(bans)}`,
    `fullest minute: ${percentOf(minutePeak)}, day: ${percentOf(dayPeak)}`,
  ].join("\n");
}
