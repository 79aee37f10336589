import { html } from "hono/html";
import { type KeyFigures, NEAR_LIMIT, type PageFigures, type Ranking } from "./page-figures.ts";
import { type Column, dataTable } from "./page-table.ts";

type Html = ReturnType<typeof html>;

interface Section {
  /** The plot that the page's script draws. */
  readonly plot: "traffic" | "outcomes" | "busiest" | "limits" | "banned";
  readonly title: string;
  readonly text: string;
  /** The colours of the plot, their meanings and their shapes. */
  readonly legend: readonly (readonly [color: string, meaning: string, shape?: string])[];
  readonly table: Html;
  /** Replaces a plot that would be empty. */
  readonly none?: string | false;
}

/** Returns the parts of the page: the totals, then each plot with its legend and a table. */
export function pageSections(figures: PageFigures): Html {
  const sections = [
    traffic(figures),
    outcomes(figures),
    limits(figures),
    busiest(figures),
    banned(figures),
  ];
  const isLong = figures.days.length > MAX_DAYS_BESIDE;
  return html`${tiles(figures)}
    <div class="panels ${isLong ? "long" : ""}">${sections.map(section)}</div>`;
}

function tiles({ totals, keys, usedKeys, bannedKeys, nearKeys }: PageFigures): Html {
  const { admitted, refused, strikes, bans } = totals;
  const asked = admitted + refused;
  const share = asked === 0 ? 0 : (refused / asked) * 100;
  const figures: [name: string, figure: number, note: string][] = [
    ["Admitted", admitted, "requests"],
    [
      "Refused",
      refused,
      `${share.toFixed(share < 10 ? 1 : 0)} % of all, ${count(strikes)} strikes`,
    ],
    ["Bans", bans, `of ${bannedKeys} ${bannedKeys === 1 ? "key" : "keys"}`],
    ["Keys in use", usedKeys, `of ${count(keys)}`],
    ["Near a limit", nearKeys, `keys at ${NEAR_LIMIT * 100} % or more`],
  ];
  return html`<dl class="tiles">
    ${figures.map(
      ([name, figure, note]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>
            ${figure < 1e8 ? count(figure) : compact(figure)}<span class="note">${note}</span>
          </dd>
        </div>`,
    )}
  </dl>`;
}

function section({ plot, title, text, legend, table, none }: Section): Html {
  const content = html` <ul class="legend">
      ${legend.map(
        ([color, meaning, shape = "bar"]) =>
          html`<li>
            <span class="swatch ${shape}" style="background: var(--${color})"></span>${meaning}
          </li>`,
      )}
    </ul>
    <div class="plot-room" data-plot="${plot}"></div>
    <details>
      <summary>The figures as a table</summary>
      ${table}
    </details>`;
  return html`<section class="panel ${plot}" aria-labelledby="${plot}-title">
    <h2 id="${plot}-title">${title}</h2>
    <p class="note">${text}</p>
    ${none ? html`<p class="none">${none}</p>` : content}
  </section>`;
}

function traffic({ days, usedKeys }: PageFigures): Section {
  return {
    plot: "traffic",
    title: "Traffic by day and plan",
    text: "By the current plan of each key. The last day is not over yet.",
    legend: PLANS.map((plan) => [plan, plan]),
    table: dataTable("Requests admitted by day and plan", days, [
      ["day", ({ day }) => day],
      ...PLANS.map((plan): Column<(typeof days)[number]> => [plan, ({ byPlan }) => byPlan[plan]]),
      ["in all", ({ admitted }) => admitted],
    ]),
    none: usedKeys === 0 && UNUSED,
  };
}

function outcomes({ days, usedKeys }: PageFigures): Section {
  return {
    plot: "outcomes",
    title: "Admitted against refused",
    text: "Admitted requests above the line, refused requests (429) below it.",
    legend: [
      ["admitted", "admitted"],
      ["refused", "refused"],
    ],
    table: dataTable("Requests admitted and refused by day", days, [
      ["day", ({ day }) => day],
      ["admitted", ({ admitted }) => admitted],
      ["refused", ({ refused }) => refused],
    ]),
    none: usedKeys === 0 && UNUSED,
  };
}

function limits({ nearest }: PageFigures): Section {
  return {
    plot: "limits",
    title: "How near to the limits",
    text: `The fullest minute and the fullest day of each key, relative to its limits on that day. ${selection(nearest)}`,
    legend: [
      ["minute", "minute", "dot"],
      ["day", "day", "diamond"],
      ["refused", "the limit", "line"],
    ],
    table: dataTable("The fullest windows of keys", nearest.keys, [
      ...NAMES,
      ["minute, %", ({ minutePeak }) => Math.round(minutePeak * 100)],
      ["day, %", ({ dayPeak }) => Math.round(dayPeak * 100)],
      ["refused", ({ refused }) => refused],
    ]),
    none: nearest.keys.length === 0 && UNUSED,
  };
}

function busiest({ busiest: ranking }: PageFigures): Section {
  return {
    plot: "busiest",
    title: "The busiest keys",
    text: `Requests admitted. ${selection(ranking)}`,
    legend: PLANS.map((plan) => [plan, plan]),
    table: dataTable("The keys with the most requests admitted", ranking.keys, [
      ...NAMES,
      ["admitted", ({ admitted }) => admitted],
      ["refused", ({ refused }) => refused],
    ]),
    none: ranking.keys.length === 0 && UNUSED,
  };
}

function banned({ banned: ranking }: PageFigures): Section {
  return {
    plot: "banned",
    title: "The banned keys",
    text: `The bans of each key, and the strikes that led to them. ${selection(ranking)}`,
    legend: [["refused", "bans"]],
    table: dataTable("The keys with the most bans", ranking.keys, [
      ...NAMES,
      ["bans", ({ bans }) => bans],
      ["strikes", ({ strikes }) => strikes],
      ["refused", ({ refused }) => refused],
    ]),
    none: ranking.keys.length === 0 && "No key was banned on these days.",
  };
}

/** With more days, a plot needs the whole width of the page. */
const MAX_DAYS_BESIDE = 45;

const UNUSED = "No key was used on these days.";

const PLANS = ["free", "pro", "business", "enterprise"] as const;

const NAMES: readonly Column<KeyFigures>[] = [
  ["key", ({ name }) => name],
  ["id", ({ id }) => id],
  ["plan", ({ plan }) => plan],
];

function selection({ keys, leftOut }: Ranking): string {
  if (leftOut === 0) return "";
  return `These are the first ${keys.length}; ${count(leftOut)} more ${leftOut === 1 ? "is" : "are"} left out.`;
}

function compact(figure: number): string {
  return figure.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2 });
}

function count(figure: number): string {
  return figure.toLocaleString("en");
}
