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
import type { KeyFigures, PageFigures } from "../usage/page-figures.ts";
import { compactCount, exactCount, PLAN_COLORS, PLOT_STYLE, TIP_STYLE } from "./plot-style.ts";

const ROW = 30;
const FONT_SIZE = 13;
const MARGIN_TOP = 8;
const AXIS = 28;

/** Plots the keys with the most admissions, in the colours of their plans. */
export function busiestPlot({ busiest: { keys } }: PageFigures, width: number): Element {
  const ends = { x: "admitted", y: "id" } as const;
  return plot({
    ...keyPlot(keys, width, "The keys with the most requests admitted, as bars."),
    marginRight: 56,
    color: PLAN_COLORS,
    marks: [
      ...keyAxes(keys, width, keys[0]?.admitted ?? 0),
      barX(keys, { ...ends, fill: "plan", insetTop: 2, insetBottom: 2 }),
      text(keys, {
        ...ends,
        text: ({ admitted }: KeyFigures) => compactCount(admitted),
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
      barX(keys, { ...ends, fill: "var(--refused)", insetTop: 2, insetBottom: 2 }),
      text(keys, {
        ...ends,
        text: ({ strikes }: KeyFigures) => `${compactCount(strikes)} strikes`,
        ...END_LABEL,
      }),
      ruleX([0]),
      keyTip(keys, (key) => key.bans),
    ],
  });
}

/** Plots how full the minute and the day of each key were at most. */
export function limitsPlot({ nearest: { keys } }: PageFigures, width: number): Element {
  return plot({
    ...keyPlot(keys, width, "How near keys came to their limits per minute and per day, as dots."),
    marginRight: 24,
    x: { domain: [0, 1] },
    marks: [
      gridX({ ticks: width > 480 ? 5 : 2 }),
      axisX({ ticks: width > 480 ? 5 : 2, tickSize: 0, label: null, tickFormat: percent }),
      nameAxis(keys, width),
      ruleX([1], { stroke: "var(--refused)", strokeWidth: 2 }),
      ruleY(keys, { x1: "minutePeak", x2: "dayPeak", y: "id", stroke: "var(--line-strong)" }),
      dot(keys, { x: "dayPeak", y: "id", r: 6, symbol: "diamond", fill: "var(--day)" }),
      dot(keys, { x: "minutePeak", y: "id", r: 5, fill: "var(--minute)" }),
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

/** @param max the largest count. More ticks than that would fall between whole numbers. */
function keyAxes(keys: readonly KeyFigures[], width: number, max: number) {
  const ticks = Math.min(width > 480 ? 4 : 2, max);
  return [
    gridX({ ticks }),
    axisX({ ticks, tickSize: 0, label: null, tickFormat: compactCount }),
    nameAxis(keys, width),
  ];
}

/** Labels keys with their names. The scale uses ids, because names need not be unique. */
function nameAxis(keys: readonly KeyFigures[], width: number) {
  const names = new Map(keys.map(({ id, name }) => [id, name]));
  return axisY({
    label: null,
    tickSize: 0,
    tickPadding: 8,
    tickFormat: (id: string) => names.get(id) ?? id,
    // Plot measures text in a narrow font. The text must fit in the wider font of the page, too.
    lineWidth: (0.8 * (nameWidth(width) - 8)) / FONT_SIZE,
    textOverflow: "ellipsis",
  });
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
    `fullest minute: ${percent(minutePeak)}, day: ${percent(dayPeak)}`,
  ].join("\n");
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
