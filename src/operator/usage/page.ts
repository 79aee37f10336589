import { writeFile } from "node:fs/promises";
import { html, raw } from "hono/html";
import { replaceFile } from "../replace-file.ts";
import { formatCount, formatTime } from "../terminal-text.ts";
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
} from "./usage-report.ts";

type Html = ReturnType<typeof html>;

interface Column<Row> {
  readonly heading: string;
  /** Returns a row's cell; `null` if it is unknown. */
  readonly value: (row: Row) => Html | string | number | null;
  /** `share`: a share from 0 to 1, with a bar. `bar`: a bar in proportion to the largest value. */
  readonly draw?: "share" | "bar";
}

/** The text in place of a figure that was not reported yet. */
export const MISSING = "–";
/** Forbids scripts, because names of keys are untrusted text. */
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
const MAX_KEYS = 100;

/** A row becomes a block on a phone, where each cell shows its heading. */
const STYLE = `
:root {
  color-scheme: light dark;
  --ground: light-dark(#f6f7f9, #12151b); --panel: light-dark(#fff, #1a1f28);
  --line: light-dark(#d6dbe4, #313948); --text: light-dark(#1b2230, #e6eaf2);
  --muted: light-dark(#566074, #9fabc0); --bar: light-dark(#2a76d2, #4d94ff);
  --alarm: light-dark(#b3261e, #ff8f86);
}
* { box-sizing: border-box; margin: 0; }
body {
  margin: 0 auto; max-width: 70rem; padding: clamp(1rem, 3vw, 2.5rem);
  background: var(--ground); color: var(--text); font: 1rem/1.5 system-ui, sans-serif;
}
h1, td, th { overflow-wrap: anywhere; }
h2 { margin-top: 1.5rem; font-size: 1.15rem; }
small, .note, dt { color: var(--muted); font-size: 0.875rem; }
strong, .alarm { color: var(--alarm); }
dl { display: flex; flex-wrap: wrap; gap: 0.8rem; margin-top: 1rem; }
dl > div { flex: 1 1 9rem; padding: 0.8rem 1rem; background: var(--panel); border: 1px solid var(--line); border-radius: 10px; }
dd { font-size: 1.5rem; font-weight: 600; line-height: 1.25; }
dd small { display: block; font-weight: 400; }
table { width: 100%; margin-top: 0.6rem; border-collapse: collapse; background: var(--panel); }
th, td { padding: 0.4rem 0.7rem; border: solid var(--line); border-width: 1px 0; text-align: end; vertical-align: top; font-variant-numeric: tabular-nums; }
th:first-child { text-align: start; }
tbody th { font-weight: 400; }
tbody th small { display: block; }
td i { display: block; height: 0.35rem; margin-left: auto; background: var(--bar); }
.alarm i { background: var(--alarm); }
@media (max-width: 40rem) {
  thead { position: absolute; clip-path: inset(50%); }
  tr { display: grid; grid-template-columns: 1fr 1fr; border-bottom: 1px solid var(--line); }
  th, td { border: 0; padding: 0.2rem 0.7rem; text-align: start; }
  tbody th { grid-column: 1 / -1; font-weight: 600; }
  td::before { content: attr(data-heading) " "; color: var(--muted); font-size: 0.875rem; }
  td i { margin-left: 0; }
}
@media print { :root { color-scheme: light; } body { background: none; print-color-adjust: exact; } tr, dl > div { break-inside: avoid; } }
`;

const KEY_COLUMNS: readonly Column<KeyReport>[] = [
  {
    heading: "key",
    value: ({ name, id, plan, bannedUntil }) =>
      html`${name}<small>${id}, ${plan}</small>${banned(bannedUntil)}`,
  },
  { heading: "admitted", value: ({ admitted }) => admitted, draw: "bar" },
  { heading: "refused", value: ({ refused }) => refused },
  { heading: "bans", value: ({ bans }) => bans },
  { heading: "fullest minute", value: ({ minutePeak }) => minutePeak, draw: "share" },
  { heading: "fullest day", value: ({ dayPeak }) => dayPeak, draw: "share" },
];

const DAY_COLUMNS: readonly Column<DayFigures>[] = [
  { heading: "day", value: ({ day }) => day },
  { heading: "admitted", value: ({ admitted }) => admitted, draw: "bar" },
  { heading: "refused", value: ({ refused }) => refused },
  { heading: "strikes", value: ({ strikes }) => strikes },
  { heading: "bans", value: ({ bans }) => bans },
];

/** Further columns of the days on the page of one key, with the limits that applied on each day. */
const PEAK_COLUMNS: readonly Column<DayFigures>[] = [
  {
    heading: "fullest minute",
    value: ({ reports: [one] }) => (one ? one.peakMinute / one.perMinute : null),
    draw: "share",
  },
  {
    heading: "fullest day",
    value: ({ reports: [one] }) => (one ? one.peakDay / one.perDay : null),
    draw: "share",
  },
];

/** Writes the usage of all keys, or of one key, to an HTML file that needs no network. */
export async function writeUsagePage(
  report: UsageReport,
  key: KeyReport | undefined,
  file: string,
  now: Date,
): Promise<void> {
  const text = (await page(report, key, now)).toString();
  await replaceFile(file, (temporary) => writeFile(temporary, text));
}

function page(report: UsageReport, key: KeyReport | undefined, now: Date): Html {
  const days = figuresByDay(report).toReversed();
  const range = [...new Set([report.days[0], report.days.at(-1)])].join(" to ");
  const title = key === undefined ? "API usage" : `API usage of ${key.name}`;
  const columns = key === undefined ? DAY_COLUMNS : [...DAY_COLUMNS, ...PEAK_COLUMNS];
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta http-equiv="Content-Security-Policy" content="${POLICY}" />
        <title>${title}, ${range}</title>
        <link rel="icon" href="data:," />
        <style>
          ${raw(STYLE)}
        </style>
      </head>
      <body>
        <header>
          <h1>${title}</h1>
          ${key !== undefined && description(key)}
          <p>${range}, days in UTC</p>
          <p class="note">${provenance(report, now)} Made ${formatTime(now)}.</p>
        </header>
        <main>
          ${tiles(report, key)} ${key === undefined && keyTables(report)}
          <h2>By day, the newest first</h2>
          ${table("By day", days, columns)}
        </main>
      </body>
    </html>`;
}

function description({ id, plan, limits, bannedUntil }: KeyReport): Html {
  return html`<p>
    <code>${id}</code>, ${plan} plan: ${figure(limits.perMinute)} requests a minute,
    ${figure(limits.perDay)} a day. ${banned(bannedUntil)}
  </p>`;
}

function banned(until: Date | null): Html | "" {
  return until === null ? "" : html`<strong>Banned until ${formatTime(until)}.</strong>`;
}

function provenance({ reportedAt, keys }: UsageReport, now: Date): string {
  const silent = keys.filter((key) => key.reportedAt === null).length;
  const known = `As reported until ${reportedAt === null ? "" : formatTime(reportedAt)}. Admitted requests and bans are exact up to the last report. Refused requests and strikes are lower bounds.`;
  const unknown = `${MISSING}: ${formatCount(silent, "key")} reported nothing on these days. A key in use reports by ${formatTime(completeBy(now))}.`;
  return `${reportedAt === null ? "" : known} ${silent === 0 ? "" : unknown}`;
}

function tiles(report: UsageReport, key: KeyReport | undefined): Html {
  const { keys, reportedAt } = report;
  const { admitted, refused, strikes, bans } = totalsOf(keys);
  const isKnown = reportedAt !== null;
  const share = isKnown
    ? Math.round((100 * (refused ?? 0)) / Math.max(1, (admitted ?? 0) + (refused ?? 0)))
    : null;
  const shown = [
    ["Admitted", figure(admitted), "requests"],
    ["Refused", figure(refused), `${figure(share)} % of all, ${figure(strikes)} strikes`],
    ["Bans", figure(bans), "that began"],
    key === undefined
      ? [
          "Near a limit",
          figure(isKnown ? keysNear(report, NEAR_LIMIT).length : null),
          "keys known to have reached 80 %",
        ]
      : ["Nearest to a limit", percent(isKnown ? fullestShare(key) : null), "of its fuller window"],
  ];
  return html`<dl>
    ${shown.map(
      ([name, value, note]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}<small>${note}</small></dd>
        </div>`,
    )}
  </dl>`;
}

function keyTables({ keys }: UsageReport): Html {
  const lists = [
    ["Refused or banned", keys.filter(({ refused, bans }) => (refused ?? 0) + (bans ?? 0) > 0)],
    ["Near a limit", keys.filter((key) => fullestShare(key) >= NEAR_LIMIT)],
    ["All keys, the busiest first", keys],
  ] as const;
  return html`${lists.map(
    ([title, listed]) =>
      html`<h2>${title}</h2>
        ${
          listed.length === 0
            ? html`<p class="note">No key is known to be.</p>`
            : table(title, listed.slice(0, MAX_KEYS), KEY_COLUMNS)
        }
        ${
          listed.length > MAX_KEYS &&
          html`<p class="note">${figure(listed.length - MAX_KEYS)} more are left out.</p>`
        }`,
  )}`;
}

function table<Row>(caption: string, rows: readonly Row[], columns: readonly Column<Row>[]): Html {
  const [first, ...others] = columns;
  const most = new Map(
    others.map((column) => [column, Math.max(1, ...rows.map((row) => Number(column.value(row))))]),
  );
  const cell = (column: Column<Row>, row: Row) => {
    const { heading, value, draw } = column;
    const found = value(row);
    const number = typeof found === "number" ? found : null;
    const share =
      draw === "share" ? Math.min(1, number ?? 0) : (number ?? 0) / (most.get(column) ?? 1);
    const isAlarm = draw === "share" && share >= NEAR_LIMIT;
    return html`<td data-heading="${heading}" class="${isAlarm ? "alarm" : ""}">
      ${draw === "share" ? percent(number) : figure(number)}
      ${draw !== undefined && html`<i style="width: ${100 * share}%"></i>`}
    </td>`;
  };
  return html`<table aria-label="${caption}">
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
            ${others.map((column) => cell(column, row))}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

function figure(value: number | null): string {
  return value?.toLocaleString("en") ?? MISSING;
}

function percent(share: number | null): string {
  return share === null ? MISSING : `${Math.round(share * 100)} %`;
}
