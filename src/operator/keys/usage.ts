import { writeFile } from "node:fs/promises";
import { html, raw } from "hono/html";
import { lastDays } from "../../rules/days.ts";
import { NEAR_LIMIT } from "../../rules/limits/low-quota.ts";
import type { keyUsage } from "../../schema/keys.ts";
import { printData, printJson } from "../command-line.ts";
import { databaseTime, type Orm } from "../../store/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { replaceFile } from "../replace-file.ts";
import { formatAge, formatNumber, formatTable, formatTime, MISSING } from "../terminal-text.ts";
import { listApiKeys } from "../../store/keys/find-keys.ts";
import { readUsage } from "../../store/keys/usage.ts";
import { requireApiKey } from "./show.ts";

const COUNTS = ["admitted", "refused", "bans"] as const;
const COLUMNS = [
  ...COUNTS.map((name) => ({ heading: name, name, isShare: false })),
  { heading: "fullest minute", name: "minutePeak", isShare: true },
  { heading: "fullest day", name: "dayPeak", isShare: true },
] as const;

type UsageOfDay = Omit<Readonly<typeof keyUsage.$inferSelect>, "keyId">;
/** Usage added up over days of one or more keys. `null`: nothing was reported yet. */
type Figures = Readonly<ReturnType<typeof sumUp>>;
type UsageReport = Readonly<Awaited<ReturnType<typeof readReport>>>;
type KeyReport = UsageReport["keys"][number];
type Html = ReturnType<typeof html>;
type Row = readonly [heading: Html | string, Figures];

/** `near`: only keys near a limit. */
type UsageOptions = StoreCommandOptions & Readonly<{ days: number; near: boolean; html?: string }>;

/** Prints the usage of all keys or of one, up to an hour old, or writes it to an HTML file. */
export async function usage(id: string | undefined, options: UsageOptions): Promise<void> {
  const { near, days, html: file, json } = options;
  const report = await useDatabase(options, "keys", ({ orm }) => readReport(orm, id, days));
  const keys = near ? report.keys.filter(isNear) : report.keys;
  if (file !== undefined) {
    const key = id === undefined ? undefined : report.keys[0];
    const text = (await page({ ...report, keys }, key)).toString();
    await replaceFile(file, (temporary) => writeFile(temporary, text));
    process.stderr.write(`The page is in ${file}.\n`);
  }
  if (json) return printJson(keys);
  if (file !== undefined) return;
  const none = near ? `No key is known to have reached ${100 * NEAR_LIMIT} % of a limit` : "No key";
  const byDay = () => figuresByDay(report).map(({ day, ...sum }) => ({ day, ...toCells(sum) }));
  if (keys.length === 0) process.stderr.write(`${none}.\n`);
  else printData(formatTable(id === undefined ? keys.map(toRow) : byDay(), "name"));
  for (const { id: banned, bannedUntil } of keys) {
    if (bannedUntil === null) continue;
    process.stderr.write(`${banned} is banned until ${formatTime(bannedUntil)}.\n`);
  }
  process.stderr.write(`${describeReport(report)} "peak" is of the fullest minute or day.\n`);
}

function toCells(figures: Figures) {
  const cells = COLUMNS.map(({ heading, name, isShare }) => {
    const title = heading.replace("fullest ", "peak/").replace("minute", "min");
    return [title, isShare ? show(figures[name], isShare) : figures[name]] as const;
  });
  return Object.fromEntries(cells);
}

const toRow = ({ id, name, ...figures }: KeyReport) => {
  return { id, ...toCells(figures), reported: lastReport(figures), name };
};

const lastReport = ({ reportAgeSeconds: age }: Pick<KeyReport, "reportAgeSeconds">) =>
  age === null ? MISSING : formatAge(age);

/**
 * Reads the usage of all keys, or of one, on the last `count` days in UTC, up to an hour old. The
 * keys are sorted by admitted, then by refused requests, the largest numbers first.
 *
 * @throws if no key has the id.
 */
async function readReport(orm: Orm, id: string | undefined, count: number) {
  const now = await databaseTime(orm);
  const days = lastDays(now.getTime(), count);
  const found = id === undefined ? await listApiKeys(orm, {}, now) : [await requireApiKey(orm, id)];
  const reported = Map.groupBy(await readUsage(orm, id, days), ({ keyId }) => keyId);
  const keys = found.map((key) => {
    // A limiter whose clock was ahead has written later days, which its next report corrects.
    const used = (reported.get(key.id) ?? [])
      .filter(({ day }) => days.includes(day))
      .map(({ keyId: _keyId, ...day }) => day);
    const { id: keyId, name, plan, bannedUntil } = key;
    const figures = sumUp(used);
    const ageMs = now.getTime() - (figures.reportedAt?.getTime() ?? NaN);
    const reportAgeSeconds = Number.isNaN(ageMs) ? null : Math.max(0, Math.floor(ageMs / 1_000));
    return { id: keyId, name, plan, ...figures, reportAgeSeconds, days: used, bannedUntil };
  });
  const busiestFirst = (one: Figures, other: Figures) =>
    (other.admitted ?? 0) - (one.admitted ?? 0) || (other.refused ?? 0) - (one.refused ?? 0);
  return { days, keys: keys.toSorted(busiestFirst) };
}

/** Adds up the usage of days, and takes the largest share of a limit, from 0 to 1. */
function sumUp(days: readonly UsageOfDay[]) {
  const orNull = <T>(value: T) => (days.length === 0 ? null : value);
  const sum = (name: "admitted" | "refused" | "strikes" | "bans") =>
    orNull(days.reduce((total, day) => total + day[name], 0));
  const largest = (valueOf: (day: UsageOfDay) => number) => Math.max(...days.map(valueOf));
  return {
    admitted: sum("admitted"),
    refused: sum("refused"),
    strikes: sum("strikes"),
    bans: sum("bans"),
    minutePeak: orNull(
      Math.min(
        1,
        largest((day) => day.peakMinute / day.perMinute),
      ),
    ),
    dayPeak: orNull(
      Math.min(
        1,
        largest((day) => day.peakDay / day.perDay),
      ),
    ),
    reportedAt: orNull(new Date(largest((day) => day.reportedAt.getTime()))),
  };
}

/** Adds up the usage of keys on each day, the newest day first. */
function figuresByDay({ days, keys }: UsageReport) {
  const all = keys.flatMap((key) => key.days);
  const used = Map.groupBy(all, ({ day }) => day);
  return days.map((day) => ({ day, ...sumUp(used.get(day) ?? []) })).toReversed();
}

/** Returns whether the fuller of a key's two windows is known to have come near its limit. */
function isNear({ minutePeak, dayPeak }: Figures): boolean {
  return Math.max(minutePeak ?? 0, dayPeak ?? 0) >= NEAR_LIMIT;
}

/** Says how recent and how exact the figures of a report are. */
function describeReport({ keys }: UsageReport): string {
  const age = Math.min(...keys.map(({ reportAgeSeconds }) => reportAgeSeconds ?? Infinity));
  const asOf = Number.isFinite(age)
    ? `The last report came ${formatAge(age)}`
    : "Nothing was reported";
  return `${asOf}; refused requests are a lower bound. ${MISSING} means no report in these days. A key in use reports hourly: if the last report of one is older, look into the log.`;
}

const STYLE = `
:root { color-scheme: light dark; }
* { margin: 0; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: Canvas; font: clamp(0.75rem, 3vw, 1rem)/1.5 system-ui, sans-serif; }
h1, tbody th { overflow-wrap: anywhere; }
h2 { margin-top: 1.5rem; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3em; border-bottom: 1px solid #8886; text-align: end; vertical-align: top; }
th:first-child { min-width: 7em; text-align: start; }
small { display: block; font-weight: 400; }
meter { display: block; width: 100%; }
`;

/** The page of all keys, or of `key`. It needs no network. */
function page(report: UsageReport, key: KeyReport | undefined): Html {
  const { days, keys } = report;
  const title = key === undefined ? "API usage" : `API usage of ${key.name}`;
  const range = [...new Set([days[0], days.at(-1)])].join(" to ");
  const all = sumUp(keys.flatMap((each) => each.days));
  const isHindered = ({ refused, bans, bannedUntil }: KeyReport) =>
    (refused ?? 0) + (bans ?? 0) > 0 || bannedUntil !== null;
  const ofKeys = (listed: readonly KeyReport[]) =>
    listed.map((each): Row => [html`${each.name}${describeKey(each)}`, each]);
  const tables = {
    "Refused or banned": ofKeys(keys.filter(isHindered)),
    "Near a limit": ofKeys(keys.filter(isNear)),
    "All keys, the busiest first": ofKeys(keys),
  };
  const byDay = figuresByDay(report).map((figures): Row => [figures.day, figures]);
  const shown = { ...(key === undefined && tables), "By day, the newest first": byDay };
  // Forbids scripts, because names of keys are untrusted text.
  const policy = "default-src 'none'; style-src 'unsafe-inline'";
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta http-equiv="Content-Security-Policy" content="${policy}" />
        <title>${title}, ${range}</title>
        <style>
          ${raw(STYLE)}
        </style>
      </head>
      <body>
        <header>
          <h1>${title}</h1>
          ${key !== undefined && html`<p>${describeKey(key)}</p>`}
          <p>
            ${range}, days in UTC: ${COUNTS.map((name) => `${name} ${show(all[name])}`).join(", ")}
          </p>
          <p>${describeReport(report)}</p>
        </header>
        <main>${Object.entries(shown).map(([heading, rows]) => section(heading, rows))}</main>
      </body>
    </html>`;
}

function describeKey({ id, plan, bannedUntil, ...report }: KeyReport): Html {
  const ban = bannedUntil && html`<strong>Banned until ${formatTime(bannedUntil)}.</strong>`;
  return html`<small>${id}, ${plan}, last report: ${lastReport(report)}</small>${ban}`;
}

function section(heading: string, rows: readonly Row[]): Html {
  const titles = ["", ...COLUMNS.map((column) => column.heading)];
  const table = html`<table aria-label="${heading}">
    <thead>
      <tr>
        ${titles.map((title) => html`<th scope="col">${title}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        ([title, figures]) =>
          html`<tr>
            <th scope="row">${title}</th>
            ${COLUMNS.map(({ name, isShare }) => cell(figures[name], isShare))}
          </tr>`,
      )}
    </tbody>
  </table>`;
  return html`<h2>${heading}</h2>
    ${rows.length === 0 ? html`<p>No key is known to be.</p>` : table}`;
}

function cell(value: number | null, isShare: boolean): Html {
  const text = show(value, isShare);
  if (value === null || !isShare) return html`<td>${text}</td>`;
  return html`<td>${text}<meter value="${value}" high="${NEAR_LIMIT}"></meter></td>`;
}

/** Formats a number, or with `isShare` a share from 0 to 1 as in `87 %`. */
function show(value: number | null, isShare = false): string {
  if (value === null) return MISSING;
  return isShare ? `${Math.round(value * 100)} %` : formatNumber(value);
}
