import { writeFile } from "node:fs/promises";
import { html, raw } from "hono/html";
import { replaceFile } from "../replace-file.ts";
import { formatNumber, formatTime, MISSING } from "../terminal-text.ts";
import {
  describeReport,
  type Figures,
  figuresByDay,
  isNear,
  type KeyReport,
  NEAR_LIMIT,
  sumUp,
  type UsageReport,
} from "./usage-report.ts";

type Html = ReturnType<typeof html>;
type Row = readonly [heading: Html | string, Figures];

/** Forbids scripts, because names of keys are untrusted text. */
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

const COUNTS = ["admitted", "refused", "bans"] as const;
/** The columns of usage, also in the terminal. */
export const COLUMNS = [
  ...COUNTS.map((name) => ({ heading: name, name, isShare: false })),
  { heading: "fullest minute", name: "minutePeak", isShare: true },
  { heading: "fullest day", name: "dayPeak", isShare: true },
] as const;

/** On a phone, a row becomes a block, where each cell shows its heading. */
const STYLE = `
:root {
  color-scheme: light dark; --line: light-dark(#d6dbe4, #313948); --bar: light-dark(#2a76d2, #4d94ff);
  --muted: light-dark(#566074, #9fabc0); --alarm: light-dark(#b3261e, #ff8f86);
}
* { box-sizing: border-box; margin: 0; }
body { margin: 0 auto; max-width: 64rem; padding: clamp(1rem, 3vw, 2.5rem); background: light-dark(#fff, #12151b); color: light-dark(#1b2230, #e6eaf2); font: 1rem/1.5 system-ui, sans-serif; }
h1, th { overflow-wrap: anywhere; }
h2 { margin-top: 1.5rem; font-size: 1.15rem; }
small, dt, td::before, header p:last-child { color: var(--muted); font-size: 0.875rem; font-weight: 400; }
strong, .alarm { color: var(--alarm); }
dl { display: flex; flex-wrap: wrap; gap: 0.8rem; margin-top: 1rem; }
dl div { flex: 1 1 9rem; padding: 0.6rem 1rem; border: 1px solid var(--line); border-radius: 10px; }
dd { font-size: 1.5rem; font-weight: 600; }
table { width: 100%; margin-top: 0.6rem; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.4rem 0.7rem; border: solid var(--line); border-width: 1px 0; text-align: end; vertical-align: top; }
th:first-child { text-align: start; }
tbody th { font-weight: 400; }
tbody small, i { display: block; }
i { height: 0.35rem; margin-left: auto; background: var(--bar); }
.alarm i { background: var(--alarm); }
@media (max-width: 40rem) {
  thead { position: absolute; clip-path: inset(50%); }
  tr { display: grid; grid-template-columns: 1fr 1fr; border-bottom: 1px solid var(--line); }
  th, td { border: 0; padding: 0.2rem 0.7rem; text-align: start; }
  tbody th { grid-column: 1 / -1; font-weight: 600; }
  td::before { content: attr(data-heading) " "; }
  i { margin-left: 0; }
}
`;

/** Writes the usage of all keys, or of `key`, to an HTML file that needs no network. */
export async function writeUsagePage(
  report: UsageReport,
  key: KeyReport | undefined,
  file: string,
): Promise<void> {
  const text = (await page(report, key)).toString();
  await replaceFile(file, (temporary) => writeFile(temporary, text));
}

function page(report: UsageReport, key: KeyReport | undefined): Html {
  const title = key === undefined ? "API usage" : `API usage of ${key.name}`;
  const range = [...new Set([report.days[0], report.days.at(-1)])].join(" to ");
  const days = figuresByDay(report).map((figures): Row => [figures.day, figures]);
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
          ${key !== undefined && html`<p>${describeKey(key)}</p>`}
          <p>${range}, days in UTC</p>
          <p>${describeReport(report)}</p>
        </header>
        <main>
          ${tiles(report)} ${key === undefined && keyTables(report)}
          <h2>By day, the newest first</h2>
          ${table("By day", "day", days)}
        </main>
      </body>
    </html>`;
}

function describeKey({ id, plan, limits, bannedUntil }: KeyReport): Html {
  const { perMinute, perDay } = limits;
  const quota = `${show(perMinute)} requests a minute, ${show(perDay)} a day`;
  const ban = bannedUntil && html`<strong>Banned until ${formatTime(bannedUntil)}.</strong>`;
  return html`<small>${id}, ${plan}: ${quota}</small>${ban}`;
}

function tiles({ keys }: UsageReport): Html {
  const all = sumUp(keys.flatMap(({ days }) => days));
  const near = all.reportedAt === null ? null : keys.filter(isNear).length;
  const tile = (name: string, value: number | null) =>
    html`<div>
      <dt>${name}</dt>
      <dd>${show(value)}</dd>
    </div>`;
  return html`<dl>
    ${COUNTS.map((name) => tile(name, all[name]))} ${tile("keys known to be near a limit", near)}
  </dl>`;
}

function keyTables({ keys }: UsageReport): Html {
  const lists = [
    ["Refused or banned", keys.filter(({ refused, bans }) => (refused ?? 0) + (bans ?? 0) > 0)],
    ["Near a limit", keys.filter(isNear)],
    ["All keys, the busiest first", keys],
  ] as const;
  return html`${lists.map(([title, listed]) => {
    const rows = listed.map((key): Row => [html`${key.name}${describeKey(key)}`, key]);
    return html`<h2>${title}</h2>
      ${rows.length === 0 ? html`<p>No key is known to be.</p>` : table(title, "key", rows)}`;
  })}`;
}

function table(caption: string, first: string, rows: readonly Row[]): Html {
  const most = Math.max(1, ...rows.map(([, { admitted }]) => admitted ?? 0));
  const cell = (figures: Figures, { heading, name, isShare }: (typeof COLUMNS)[number]) => {
    const value = figures[name];
    const isAlarm = isShare && (value ?? 0) >= NEAR_LIMIT;
    const hasBar = isShare || name === "admitted";
    const length = (value ?? 0) / (isShare ? 1 : most);
    return html`<td data-heading="${heading}" class="${isAlarm ? "alarm" : ""}">
      ${isShare ? formatShare(value) : show(value)}
      ${hasBar && html`<i style="width: ${100 * length}%"></i>`}
    </td>`;
  };
  const row = ([heading, figures]: Row) =>
    html`<tr>
      <th scope="row">${heading}</th>
      ${COLUMNS.map((column) => cell(figures, column))}
    </tr>`;
  return html`<table aria-label="${caption}">
    <thead>
      <tr>
        ${[first, ...COLUMNS.map(({ heading }) => heading)].map(
          (heading) => html`<th scope="col">${heading}</th>`,
        )}
      </tr>
    </thead>
    <tbody>
      ${rows.map(row)}
    </tbody>
  </table>`;
}

function show(value: number | null): string {
  return value === null ? MISSING : formatNumber(value);
}

/** Formats a share from 0 to 1 as in `87 %`. */
export function formatShare(share: number | null): string {
  return share === null ? MISSING : `${Math.round(share * 100)} %`;
}
