import { html } from "hono/html";
import type { DayFigures, Ranking } from "./page-figures.ts";
import type { UsageTotals } from "./usage-report.ts";

type Html = ReturnType<typeof html>;

/** A figure at the top of a usage page, with its name and a note. */
export type Tile = readonly [name: string, figure: string, note: string | Html];

/** The names of the plots that the script of a usage page draws. */
export type PlotName =
  | "admitted"
  | "banned"
  | "bans"
  | "busiest"
  | "day"
  | "limits"
  | "minute"
  | "refused"
  | "traffic";

/**
 * An entry of a plot's legend: a colour, its meaning, and the CSS class that shapes the colour
 * sample.
 */
type LegendEntry = readonly [color: string, meaning: string, shape?: string];

interface Plot {
  readonly name: PlotName;
  readonly legend: readonly LegendEntry[];
  /** The text that replaces a plot without figures. */
  readonly none?: string | false;
}

/** A section of a page: a title, plots, and the figures of the plots as a table. */
export interface Section {
  readonly title: string;
  readonly text: string;
  readonly plots: readonly [Plot, ...Plot[]];
  readonly table: Html;
  /** The text that replaces the plots and the table if there are no figures. */
  readonly none?: string | false;
}

/** The legend of hatched bars, for days whose counts may still grow. */
export const INCOMPLETE: LegendEntry = ["incomplete", "day with reports to come", "hatched"];

export const UNUSED = "No key was used on these days.";

/**
 * Writes the body of a page: the tiles, then each section.
 *
 * @param days the number of days that the plots show.
 */
export function pageBody(tiles: readonly Tile[], sections: readonly Section[], days: number): Html {
  const isLong = days > MAX_DAYS_BESIDE;
  return html`<dl class="tiles">
      ${tiles.map(
        ([name, figure, note]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${figure}<span class="note">${note}</span></dd>
          </div>`,
      )}
    </dl>
    <div class="panels ${isLong ? "long" : ""}">${sections.map(panel)}</div>
    <svg width="0" height="0" aria-hidden="true">
      <pattern id="incomplete" width="6" height="6" patternUnits="userSpaceOnUse">
        <path d="M-1 1L1 -1M0 6L6 0M5 7L7 5" stroke="var(--panel)" stroke-width="2.5" />
      </pattern>
    </svg>`;
}

/** Returns the tiles that the page of all keys and the page of one key have in common. */
export function countTiles(totals: UsageTotals, bannedKeys: string): Tile[] {
  const { admitted, refused, strikes, bans } = totals;
  const share = percentRefused(totals);
  return [
    ["Admitted", count(admitted), "requests"],
    ["Refused", count(refused), `${share} of all, ${count(strikes)} strikes`],
    ["Bans", count(bans), bannedKeys],
  ];
}

/** Returns the section of refused requests and bans, with a separate scale for each plot. */
export function refusals(
  days: readonly DayFigures[],
  { refused, bans }: UsageTotals,
  table: Html,
): Section {
  return {
    title: "Refused requests and bans",
    text: "The two plots have different scales.",
    plots: [
      {
        name: "refused",
        legend: [["refused", "requests refused (429)"], ...incomplete(days)],
        none: refused === 0 && "No request was refused on these days.",
      },
      {
        name: "bans",
        legend: [["banned", "bans that began"]],
        none: bans === 0 && "No ban began on these days.",
      },
    ],
    table,
    none: refused === 0 && bans === 0 && "No request was refused and no ban began on these days.",
  };
}

/** Returns the legend of hatched bars if a day is incomplete, and otherwise no legend. */
export function incomplete(days: readonly DayFigures[]): LegendEntry[] {
  return days.some(({ isComplete }) => !isComplete) ? [INCOMPLETE] : [];
}

/** Returns a sentence about how many keys a ranking leaves out. */
export function selection({ keys, leftOut }: Ranking): string {
  if (leftOut === 0) return "";
  return `These are the first ${keys.length}; ${count(leftOut)} more ${leftOut === 1 ? "is" : "are"} left out.`;
}

/** Formats the share of refused requests in all requests, such as `0.5 %`. */
export function percentRefused({ admitted, refused }: Omit<UsageTotals, "strikes" | "bans">) {
  if (refused === 0) return "0 %";
  const percent = (refused / (admitted + refused)) * 100;
  if (percent < 0.1) return "< 0.1 %";
  return `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

export function dayTime(day: string): Html {
  return html`<time datetime="${day}">${day}</time>`;
}

export function count(figure: number): string {
  return figure.toLocaleString("en");
}

/** The largest number of days with which two plots fit side by side. */
const MAX_DAYS_BESIDE = 45;

function panel({ title, text, plots, table, none }: Section): Html {
  const [{ name }] = plots;
  const content = html`${plots.map(plotRoom)}
    <details>
      <summary>The figures as a table</summary>
      ${table}
    </details>`;
  return html`<section class="panel ${name}" aria-labelledby="${name}-title">
    <h2 id="${name}-title">${title}</h2>
    ${
      none
        ? html`<p class="none">${none}</p>`
        : html`<p class="note">${text}</p>
            ${content}`
    }
  </section>`;
}

function plotRoom({ name, legend, none }: Plot): Html {
  if (none) return html`<p class="none">${none}</p>`;
  return html`<ul class="legend">
      ${legend.map(
        ([color, meaning, shape = "bar"]) =>
          html`<li>
            <span class="swatch ${shape}" style="--color: var(--${color})"></span>${meaning}
          </li>`,
      )}
    </ul>
    <div class="plot-room" data-plot="${name}"></div>`;
}
