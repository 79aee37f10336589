import { html } from "hono/html";
import { PLANS } from "../../worker/limit-rules/plans.ts";
import { type Column, dataTable, dayPlot, figure, type Html } from "./plots.ts";
import {
  type DayFigures,
  figuresByDay,
  fullestShare,
  type KeyReport,
  keysNear,
  NEAR_LIMIT,
  totalsOf,
  type UsageReport,
  type UsageTotals,
} from "./usage-report.ts";

const UNUSED = "No key has reported use on these days.";
/** The largest number of keys in a ranking. */
const MAX_KEYS = 20;
const NEAR = `${NEAR_LIMIT * 100} %`;
const BAR_COLORS = { admitted: "pro", refused: "refused", bans: "banned" };

/**
 * Writes what a usage page shows: the totals, the days, and for all keys the keys that an operator
 * looks for; for one key, how near it came to its limits.
 */
export function sections(report: UsageReport, key: KeyReport | undefined, now: Date): Html[] {
  const shown = key === undefined ? report : { ...report, keys: [key] };
  const days = figuresByDay(shown, now);
  const totals = totalsOf(shown.keys);
  return [
    tiles(shown, key, totals),
    byDay({
      title: "Requests admitted",
      note: key === undefined ? "By the present plan of each key." : "",
      days,
      columns: PLANS.filter((plan) => key === undefined || key.plan === plan).map((plan) => ({
        heading: key === undefined ? plan : "admitted",
        value: ({ byPlan }) => byPlan[plan],
        color: plan,
      })),
      none: totals.admitted === 0 && "No admitted request was reported on these days.",
    }),
    byDay({
      title: "Requests refused",
      note: "",
      days,
      columns: [
        { heading: "refused", value: ({ refused }) => refused, color: BAR_COLORS.refused },
        { heading: "of all", value: percentRefused },
        { heading: "strikes", value: ({ strikes }) => strikes },
      ],
      none: totals.refused === 0 && "No refused request was reported on these days.",
    }),
    byDay({
      title: "Bans that began",
      note: "",
      days,
      columns: [{ heading: "bans", value: ({ bans }) => bans, color: BAR_COLORS.bans }],
      none: totals.bans === 0 && "No ban was reported on these days.",
    }),
    ...(key === undefined ? rankings(report.keys) : windows(key, days)),
  ];
}

function tiles(report: UsageReport, key: KeyReport | undefined, totals: UsageTotals): Html {
  const isKnown = report.reportedAt !== null;
  const count = (keys: readonly KeyReport[]) => figure(isKnown ? keys.length : null);
  const share = (peak: number | null) => (peak === null ? "–" : `${Math.round(peak * 100)} %`);
  const banned = report.keys.filter(({ bans }) => bans);
  const used = report.keys.filter(({ reportedAt }) => reportedAt !== null);
  const shown = [
    ["Admitted", figure(totals.admitted), "requests"],
    [
      "Refused",
      figure(totals.refused),
      isKnown ? `${percentRefused(totals)} of all, ${figure(totals.strikes)} strikes` : "requests",
    ],
    ["Bans", figure(totals.bans), key === undefined ? `keys: ${banned.length}` : "that began"],
    ...(key === undefined
      ? [
          ["Keys in use", count(used), `of ${figure(report.keys.length)}`],
          ["Near a limit", count(keysNear(report, NEAR_LIMIT)), `keys at ${NEAR} or more`],
        ]
      : [
          ["Fullest minute", share(key.minutePeak), "of its limit"],
          ["Fullest day", share(key.dayPeak), "of its limit"],
        ]),
  ];
  return html`<dl class="tiles">
    ${shown.map(
      ([name, value, note]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}<span class="note">${note}</span></dd>
        </div>`,
    )}
  </dl>`;
}

interface DaySection {
  readonly title: string;
  readonly note: string;
  readonly days: readonly DayFigures[];
  readonly columns: readonly Column<DayFigures>[];
  readonly limit?: (day: DayFigures) => number | null;
  /** The text that replaces a plot without bars. */
  readonly none: string | false;
}

/** Writes a plot of the days with its legend, and the same figures as a table. */
function byDay({ title, note, days, columns, limit, none }: DaySection): Html {
  const legend = columns.flatMap(({ heading, color }) => (color ? [[color, heading, ""]] : []));
  if (limit !== undefined) {
    legend.push(["near", `near the limit, ${NEAR}`, "line"], ["refused", "the limit", "line"]);
  }
  legend.push(["muted", "day with reports to come", "open"]);
  const all = [{ heading: "day", value: ({ day }: DayFigures) => day }, ...columns];
  const plot = html`<ul class="legend">
      ${legend.map(
        ([color, meaning, shape]) =>
          html`<li><i class="${shape}" style="--color: var(--${color})"></i>${meaning}</li>`,
      )}
    </ul>
    ${dayPlot(title, days, all, limit)}
    <details>
      <summary>The figures as a table</summary>
      ${dataTable(title, days, all)}
    </details>`;
  return panel(title, note, none ? html`<p class="none">${none}</p>` : plot);
}

/** Writes how full the minute and day windows of a key were on each day. */
function windows({ limits }: KeyReport, days: readonly DayFigures[]): Html[] {
  const section = (
    name: string,
    present: number,
    peak: (day: DayFigures) => number | undefined,
    limit: (day: DayFigures) => number | undefined,
  ) =>
    byDay({
      title: `The fullest ${name} of each day`,
      note: `The most requests that a ${name} window admitted, and the limit on that day. The limit is now ${figure(present)}.`,
      days,
      columns: [
        { heading: "requests", value: (day) => peak(day) ?? day.admitted, color: name },
        { heading: "limit", value: (day) => limit(day) ?? null },
        {
          heading: "of it",
          value: (day) => (day.only === undefined ? null : (peak(day) ?? 0) / (limit(day) ?? 1)),
          isShare: true,
        },
      ],
      limit: (day) => limit(day) ?? null,
      none: false,
    });
  return [
    section(
      "minute",
      limits.perMinute,
      ({ only }) => only?.peakMinute,
      ({ only }) => only?.perMinute,
    ),
    section(
      "day",
      limits.perDay,
      ({ only }) => only?.peakDay,
      ({ only }) => only?.perDay,
    ),
  ];
}

/** Writes the keys that used most, that were banned, and that came nearest to their limits. */
function rankings(keys: readonly KeyReport[]): Html[] {
  const ranking = (title: string, measure: (key: KeyReport) => number, none = UNUSED) => {
    const ranked = keys
      .filter((key) => measure(key) > 0)
      .toSorted((one, other) => measure(other) - measure(one));
    const leftOut = ranked.length - MAX_KEYS;
    const note =
      leftOut > 0
        ? `These are the first ${MAX_KEYS}; ${figure(leftOut)} more ${leftOut === 1 ? "is" : "are"} left out.`
        : "";
    const isAnyKnown = keys.some(({ reportedAt }) => reportedAt !== null);
    const table = dataTable(title, ranked.slice(0, MAX_KEYS), KEY_COLUMNS, true);
    return panel(
      title,
      note,
      ranked.length === 0 ? html`<p class="none">${isAnyKnown ? none : UNUSED}</p>` : table,
    );
  };
  return [
    ranking("The busiest keys", ({ admitted }) => admitted ?? 0),
    ranking(
      "The banned and refused keys",
      ({ bans, refused }) => (bans ?? 0) + (refused ?? 0) / Number.MAX_SAFE_INTEGER,
      "No ban and no refused request was reported on these days.",
    ),
    ranking("The keys nearest to a limit", fullestShare),
  ];
}

function panel(title: string, note: string, content: Html): Html {
  return html`<section class="panel">
    <h2>${title}</h2>
    ${note && html`<p class="note">${note}</p>`} ${content}
  </section>`;
}

const KEY_COLUMNS: readonly Column<KeyReport>[] = [
  { heading: "key", value: ({ name }) => name },
  { heading: "id", value: ({ id }) => id },
  { heading: "plan", value: ({ plan }) => plan },
  { heading: "admitted", value: ({ admitted }) => admitted, color: BAR_COLORS.admitted },
  { heading: "refused", value: ({ refused }) => refused, color: BAR_COLORS.refused },
  { heading: "strikes", value: ({ strikes }) => strikes },
  { heading: "bans", value: ({ bans }) => bans, color: BAR_COLORS.bans },
  {
    heading: "fullest minute",
    value: ({ minutePeak }) => minutePeak,
    isShare: true,
    color: "minute",
  },
  { heading: "fullest day", value: ({ dayPeak }) => dayPeak, isShare: true, color: "day" },
];

/** Formats the share of refused requests in all requests, such as `0.5 %`; `null` if unknown. */
function percentRefused({ admitted, refused }: UsageTotals): string | null {
  if (refused === null) return null;
  const percent = (refused / Math.max(1, (admitted ?? 0) + refused)) * 100;
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  return `${percent.toFixed(percent > 0 && percent < 10 ? 1 : 0)} %`;
}
