import { html } from "hono/html";
import { type DayFigures, NEAR_LIMIT } from "./usage-report.ts";

export type Html = ReturnType<typeof html>;

/** A column of a table. Plots can draw the column too. */
export interface Column<Row> {
  readonly heading: string;
  /** Returns a row's cell; `null` if it is unknown. */
  readonly value: (row: Row) => string | number | null;
  /** True for a share from 0 to 1. */
  readonly isShare?: boolean;
  /** True for a rate limit, which is drawn as a line with a second line at 80 %. */
  readonly isLimit?: boolean;
  /** The CSS variable with the colour of the column's bars; absent if the column has no bars. */
  readonly color?: string;
}

/** Above this number of days, bars have no gaps between them. */
const MAX_DAYS_APART = 60;
const MAX_LABELS = 4;
/** The text in place of a figure that was not reported yet. */
export const MISSING = "–";

const longDay = new Intl.DateTimeFormat("en", { dateStyle: "full", timeZone: "UTC" });
const shortDay = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Draws a stacked bar of the coloured columns for each day, and a tooltip with all figures. */
export function dayPlot(
  title: string,
  days: readonly DayFigures[],
  columns: readonly Column<DayFigures>[],
): Html {
  const drawn = columns.filter(({ color }) => color !== undefined);
  const limitColumn = columns.find(({ isLimit }) => isLimit);
  const limitOn = (day: DayFigures) => Number(limitColumn?.value(day) ?? 0);
  const sum = (day: DayFigures) =>
    drawn.reduce((total, { value }) => total + Number(value(day) ?? 0), 0);
  const top = roundUp(Math.max(1, ...days.map((day) => Math.max(sum(day), limitOn(day)))));
  const percentOf = (height: number) => `${(height / top) * 100}%`;
  const step = Math.ceil(days.length / MAX_LABELS);
  const bar = (day: DayFigures, index: number) => {
    const limit = limitOn(day);
    const side = index < days.length / 2 ? "early" : "late";
    const date = new Date(day.day);
    const tip = [
      longDay.format(date),
      ...columns.slice(1).map((column) => `${column.heading}: ${text(column, day)}`),
      ...(day.isComplete ? [] : ["reports to come"]),
    ];
    return html`<div class="day ${day.isComplete ? "" : "open"} ${side}">
      ${drawn.map(({ value, color }) => {
        const height = percentOf(Number(value(day) ?? 0));
        return html`<i style="height: ${height}; --color: var(--${color})"></i>`;
      })}
      ${
        limit > 0 &&
        html`<b class="limit" style="bottom: ${percentOf(limit)}"></b>
          <b class="near" style="bottom: ${percentOf(limit * NEAR_LIMIT)}"></b>`
      }
      ${(days.length - 1 - index) % step === 0 && html`<span class="label">${shortDay.format(date)}</span>`}
      <span class="tip">${tip.join("\n")}</span>
    </div>`;
  };
  return html`<div
    class="plot ${days.length <= MAX_DAYS_APART ? "apart" : ""}"
    role="img"
    aria-label="${title}, as bars."
  >
    ${[0, 0.5, 1].map(
      (share) =>
        html`<i class="tick" style="bottom: ${share * 100}%"
          ><span>${compact.format(top * share)}</span></i
        >`,
    )}
    ${days.map(bar)}
  </div>`;
}

/** Returns a table. `hasBars` draws a bar below each figure of the columns that have a colour. */
export function dataTable<Row>(
  caption: string,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  hasBars = false,
): Html {
  const [first, ...others] = columns;
  const cells = others.map((column) => {
    const { isShare, value, color } = column;
    const most = isShare ? 1 : Math.max(1, ...rows.map((row) => Number(value(row))));
    return (row: Row) => {
      const width = `${(Number(value(row)) / most) * 100}%`;
      const bar =
        hasBars && color && html`<i style="width: ${width}; --color: var(--${color})"></i>`;
      const isText = typeof value(row) === "string";
      return html`<td class="${isText ? "" : "number"}">${text(column, row)}${bar}</td>`;
    };
  });
  return html`<div class="scroll" role="region" aria-label="${caption}" tabindex="0">
    <table>
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map(({ heading }) => html`<th scope="col">${heading}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              <th scope="row">${first?.value(row)}</th>
              ${cells.map((cell) => cell(row))}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** Formats a figure: a dash if it is unknown. */
export function figure(value: number | null): string {
  return value?.toLocaleString("en") ?? MISSING;
}

/** Formats a share of a limit: a dash if it is unknown. */
export function percent(share: number | null): string {
  return share === null ? MISSING : `${Math.round(share * 100)} %`;
}

function text<Row>({ value, isShare }: Column<Row>, row: Row): string {
  const cell = value(row);
  if (typeof cell === "string") return cell;
  return isShare ? percent(cell) : figure(cell);
}

/** Rounds up to an even number. From 10 on, all digits of the result except the first are 0. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return Math.ceil((Math.ceil(value / power) * power) / 2) * 2;
}
