import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { html, raw } from "hono/html";
import { PLANS } from "../../rules/limits/plans.ts";
import { replaceFile } from "../replace-file.ts";
import { formatCount, formatTime } from "../terminal-text.ts";
import { type Column, dataTable, dayPlot, figure, type Html, percent } from "./plots.ts";
import {
  completeBy,
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

/** Forbids scripts, because names of keys are untrusted text. */
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
const UNUSED = "No key has reported use on these days.";
const MAX_RANKED_KEYS = 20;

const KEY_COLUMNS: readonly Column<KeyReport>[] = [
  { heading: "key", value: ({ name }) => name },
  { heading: "id", value: ({ id }) => id },
  { heading: "plan", value: ({ plan }) => plan },
  { heading: "admitted", value: ({ admitted }) => admitted, color: "pro" },
  { heading: "refused", value: ({ refused }) => refused, color: "refused" },
  { heading: "strikes", value: ({ strikes }) => strikes },
  { heading: "bans", value: ({ bans }) => bans, color: "banned" },
  { heading: "fullest minute", value: (key) => key.minutePeak, isShare: true, color: "minute" },
  { heading: "fullest day", value: (key) => key.dayPeak, isShare: true, color: "day" },
];

/** Writes the usage of all keys, or of one key, to an HTML file that needs no network. */
export async function writeUsagePage(
  report: UsageReport,
  key: KeyReport | undefined,
  file: string,
  now: Date,
): Promise<void> {
  const style = await readFile(join(import.meta.dirname, "page.css"), "utf8");
  const text = String(await page(report, key, style, now));
  await replaceFile(file, (temporary) => writeFile(temporary, text));
}

function page(report: UsageReport, key: KeyReport | undefined, style: string, now: Date): Html {
  const days = figuresByDay(report, now);
  const [first = "", last = ""] = [report.days[0], report.days.at(-1)];
  const title = key === undefined ? "API usage" : `API usage of ${key.name}`;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta http-equiv="Content-Security-Policy" content="${POLICY}" />
        <title>${title}, ${first} to ${last}</title>
        <link rel="icon" href="data:," />
        <style>
          ${raw(style)}
        </style>
      </head>
      <body>
        <header>
          <h1>${title}</h1>
          ${key !== undefined && description(key)}
          <p class="range">${first === last ? "" : `${first} to `}${last}, days in UTC</p>
          <p class="note">${provenance(report, now)} Made ${time(now)}.</p>
        </header>
        <main>
          ${tiles(report, key)} ${requests(report, days)}
          ${key === undefined ? rankings(report.keys) : windows(key, days)}
        </main>
      </body>
    </html>`;
}

function description({ id, plan, limits, bannedUntil }: KeyReport): Html {
  return html`<p class="key">
    <code>${id}</code>, ${plan} plan: ${figure(limits.perMinute)} requests a minute,
    ${figure(limits.perDay)} a day.
    ${bannedUntil !== null && html`<strong>Banned until ${time(bannedUntil)}.</strong>`}
  </p>`;
}

function provenance({ reportedAt, keys }: UsageReport, now: Date): Html {
  const silent = keys.filter((key) => key.reportedAt === null).length;
  return html`${
    reportedAt !== null &&
    html`As reported until ${time(reportedAt)}. Each key reports once an hour while it is used.
    Admitted requests and bans are exact up to the last report. Refused requests and strikes are
    lower bounds.`
  }
  ${
    silent > 0 &&
    html`${formatCount(silent, "key")} reported nothing on these days. A key in use reports by
    ${time(completeBy(now))}. – stands for a figure that was not reported yet.`
  }`;
}

function tiles(report: UsageReport, key: KeyReport | undefined): Html {
  const { keys, reportedAt } = report;
  const totals = totalsOf(keys);
  const isKnown = reportedAt !== null;
  const count = (counted: readonly KeyReport[]) => figure(isKnown ? counted.length : null);
  const refused = `${percentRefused(totals)} of all, ${figure(totals.strikes)} strikes`;
  const banned = `keys: ${keys.filter(({ bans }) => bans).length}`;
  const shown = [
    ["Admitted", figure(totals.admitted), "requests"],
    ["Refused", figure(totals.refused), isKnown ? refused : "requests"],
    ["Bans", figure(totals.bans), key === undefined ? banned : "that began"],
    ...(key === undefined
      ? [
          ["Keys in use", count(keys.filter((one) => one.reportedAt)), `of ${figure(keys.length)}`],
          ["Near a limit", count(keysNear(report, NEAR_LIMIT)), "keys at 80 % or more"],
        ]
      : [
          ["Fullest minute", percent(key.minutePeak), "of its limit"],
          ["Fullest day", percent(key.dayPeak), "of its limit"],
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

function requests({ keys }: UsageReport, days: readonly DayFigures[]): Html[] {
  const totals = totalsOf(keys);
  const plans = PLANS.filter((plan) => keys.some((key) => key.plan === plan));
  return [
    byDay(
      "Requests admitted",
      "By the present plan of each key.",
      days,
      plans.map((plan) => ({
        heading: plan,
        value: ({ reports, unreported }) =>
          totalsOf(reports.filter((report) => report.plan === plan)).admitted ?? unreported,
        color: plan,
      })),
      totals.admitted === 0 ? "No admitted request was reported on these days." : undefined,
    ),
    byDay(
      "Requests refused",
      "",
      days,
      [
        { heading: "refused", value: ({ refused }) => refused, color: "refused" },
        { heading: "of all", value: percentRefused },
        { heading: "strikes", value: ({ strikes }) => strikes },
      ],
      totals.refused === 0 ? "No refused request was reported on these days." : undefined,
    ),
    byDay(
      "Bans that began",
      "",
      days,
      [{ heading: "bans", value: ({ bans }) => bans, color: "banned" }],
      totals.bans === 0 ? "No ban was reported on these days." : undefined,
    ),
  ];
}

function windows({ limits }: KeyReport, days: readonly DayFigures[]): Html[] {
  const section = (
    name: "minute" | "day",
    peak: "peakMinute" | "peakDay",
    limit: "perMinute" | "perDay",
  ) => {
    const columns: Column<DayFigures>[] = [
      { heading: "requests", value: (day) => day.reports[0]?.[peak] ?? day.admitted, color: name },
      {
        heading: "limit",
        value: ({ reports: [report] }) => report?.[limit] ?? null,
        isLimit: true,
      },
      {
        heading: "of it",
        value: ({ reports: [report] }) => (report ? report[peak] / report[limit] : null),
        isShare: true,
      },
    ];
    const note = `The most requests that a ${name} window admitted, and the limit on that day. The limit is now ${figure(limits[limit])}.`;
    return byDay(`The fullest ${name} of each day`, note, days, columns);
  };
  return [section("minute", "peakMinute", "perMinute"), section("day", "peakDay", "perDay")];
}

/** Returns a plot of the days and a table of the same figures. If set, `none` replaces both. */
function byDay(
  title: string,
  note: string,
  days: readonly DayFigures[],
  columns: readonly Column<DayFigures>[],
  none?: string,
): Html {
  const legend = columns.flatMap(({ heading, color }) => (color ? [[color, heading, ""]] : []));
  if (columns.some(({ isLimit }) => isLimit)) {
    legend.push(["near", "near the limit, 80 %", "line"], ["refused", "the limit", "line"]);
  }
  legend.push(["muted", "day with reports to come", "open"]);
  const all = [{ heading: "day", value: ({ day }: DayFigures) => day }, ...columns];
  const plot = html`<ul class="legend">
      ${legend.map(
        ([color, meaning, shape]) =>
          html`<li><i class="${shape}" style="--color: var(--${color})"></i>${meaning}</li>`,
      )}
    </ul>
    ${dayPlot(title, days, all)}
    <details>
      <summary>The figures as a table</summary>
      ${dataTable(title, days, all)}
    </details>`;
  return panel(title, note, none === undefined ? plot : html`<p class="none">${none}</p>`);
}

function rankings(keys: readonly KeyReport[]): Html[] {
  const isAnyKnown = keys.some(({ reportedAt }) => reportedAt !== null);
  const ranking = (title: string, measure: (key: KeyReport) => number, none = UNUSED) => {
    const ranked = keys
      .filter((key) => measure(key) > 0)
      .toSorted((one, other) => measure(other) - measure(one));
    if (ranked.length === 0) {
      return panel(title, "", html`<p class="none">${isAnyKnown ? none : UNUSED}</p>`);
    }
    const leftOut = ranked.length - MAX_RANKED_KEYS;
    const note = `These are the first ${MAX_RANKED_KEYS}; ${figure(leftOut)} more ${leftOut === 1 ? "is" : "are"} left out.`;
    const table = dataTable(title, ranked.slice(0, MAX_RANKED_KEYS), KEY_COLUMNS, true);
    return panel(title, leftOut > 0 ? note : "", table);
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

/** Formats the share of refused requests in all requests, such as `0.5 %`; `null` if unknown. */
function percentRefused({ admitted, refused }: UsageTotals): string | null {
  if (refused === null) return null;
  const share = (refused / Math.max(1, (admitted ?? 0) + refused)) * 100;
  if (share > 0 && share < 0.1) return "< 0.1 %";
  return `${share.toFixed(share > 0 && share < 10 ? 1 : 0)} %`;
}

function time(at: Date): Html {
  return html`<time datetime="${at.toISOString()}">${formatTime(at)}</time>`;
}
