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

/** The figures that are shown: numbers, and peaks, which are shares of a limit. */
const FIGURES = ["admitted", "refused", "bans", "minutePeak", "dayPeak"] as const;

type FigureName = (typeof FIGURES)[number];
type UsageOfDay = Omit<Readonly<typeof keyUsage.$inferSelect>, "keyId">;
/** Usage added up over days of one or more keys. `null`: nothing was reported yet. */
type Figures = Readonly<ReturnType<typeof sumUp>>;
type KeyReport = Awaited<ReturnType<typeof readReports>>[1][number];
type Html = ReturnType<typeof html>;

/** `near`: only keys near a limit. */
type UsageOptions = StoreCommandOptions & Readonly<{ days: number; near: boolean; html?: string }>;

/** Prints the usage of all keys or of one, up to an hour old, or writes it to an HTML file. */
export async function usage(id: string | undefined, options: UsageOptions): Promise<void> {
  const { near, html: file, json } = options;
  const [days, all] = await useDatabase(options, "keys", ({ orm }) =>
    readReports(orm, id, options),
  );
  const keys = near ? all.filter(isNear) : all;
  if (file !== undefined) {
    const text = (await page(keys, days, id === undefined ? undefined : all[0])).toString();
    await replaceFile(file, (temporary) => writeFile(temporary, text));
    process.stderr.write(`The page is in ${file}.\n`);
  }
  if (json) return printJson(keys);
  if (file !== undefined) return;
  const none = near ? `No key is known to have reached ${100 * NEAR_LIMIT} % of a limit` : "No key";
  const byDay = () => sumUpDays(keys, days).map((sum) => ({ day: sum.title, ...toCells(sum) }));
  if (keys.length === 0) process.stderr.write(`${none}.\n`);
  else printData(formatTable(id === undefined ? keys.map(toRow) : byDay(), "name"));
  for (const { id: banned, bannedUntil } of keys) {
    if (bannedUntil === null) continue;
    process.stderr.write(`${banned} is banned until ${formatTime(bannedUntil)}.\n`);
  }
  process.stderr.write(`${describeReports(all)} "peak" is of the fullest minute or day.\n`);
}

const toRow = ({ id, name, reportAgeSeconds, ...figures }: KeyReport) => {
  return { id, ...toCells(figures), reported: formatAge(reportAgeSeconds), name };
};

function toCells(figures: Figures) {
  const cells = FIGURES.map((name) => {
    const title = name.replace(/^(min|day).*/, "peak/$1");
    return [title, isPeak(name) ? show(figures, name) : figures[name]] as const;
  });
  return Object.fromEntries(cells);
}

/**
 * Reads the usage of all keys, the busiest first, or of one, on the last days in UTC, up to an hour old.
 *
 * @throws if no key has the id.
 */
async function readReports(orm: Orm, id: string | undefined, { days: count }: UsageOptions) {
  const now = await databaseTime(orm);
  const days = lastDays(now.getTime(), count);
  const found = id === undefined ? await listApiKeys(orm, {}, now) : [await requireApiKey(orm, id)];
  const reported = Map.groupBy(await readUsage(orm, id, days), ({ keyId }) => keyId);
  const reports = found.map(({ id: key, name, plan, bannedUntil }) => {
    // A limiter whose clock was ahead has written later days, which its next report corrects.
    const used = (reported.get(key) ?? [])
      .filter(({ day }) => days.includes(day))
      .map(({ keyId: _keyId, ...day }) => day);
    const figures = sumUp(used);
    const ageMs = figures.reportedAt && now.getTime() - figures.reportedAt.getTime();
    const reportAgeSeconds = ageMs && Math.max(0, Math.floor(ageMs / 1_000));
    return { id: key, name, plan, ...figures, reportAgeSeconds, days: used, bannedUntil };
  });
  const busiestFirst = (one: Figures, other: Figures) =>
    (other.admitted ?? 0) - (one.admitted ?? 0) || (other.refused ?? 0) - (one.refused ?? 0);
  return [days, reports.toSorted(busiestFirst)] as const;
}

/** Adds up the usage of days. A peak is the largest share of a limit, from 0 to 1. */
function sumUp(days: readonly UsageOfDay[]) {
  const fold = (add: (total: number, day: UsageOfDay) => number) =>
    days.reduce<number | null>((total, day) => add(total ?? 0, day), null);
  const sum = (name: "admitted" | "refused" | "strikes" | "bans") =>
    fold((total, day) => total + day[name]);
  const largest = (valueOf: (day: UsageOfDay) => number) =>
    fold((value, day) => Math.max(value, valueOf(day)));
  const reportedMs = largest(({ reportedAt }) => reportedAt.getTime());
  return {
    admitted: sum("admitted"),
    refused: sum("refused"),
    strikes: sum("strikes"),
    bans: sum("bans"),
    minutePeak: largest((day) => Math.min(1, day.peakMinute / day.perMinute)),
    dayPeak: largest((day) => Math.min(1, day.peakDay / day.perDay)),
    reportedAt: reportedMs === null ? null : new Date(reportedMs),
  };
}

const usageOf = (keys: readonly KeyReport[]) => keys.flatMap(({ days }) => days);

/** Adds up the usage of keys on each day, the newest day first. */
function sumUpDays(keys: readonly KeyReport[], days: readonly string[]) {
  const used = Map.groupBy(usageOf(keys), ({ day }) => day);
  return days.map((title) => ({ title, ...sumUp(used.get(title) ?? []) })).toReversed();
}

/** Returns whether the fuller of a key's two windows is known to have come near its limit. */
const isNear = ({ minutePeak, dayPeak }: Figures) =>
  Math.max(minutePeak ?? 0, dayPeak ?? 0) >= NEAR_LIMIT;

/** Says how recent and how exact the figures of keys are. */
function describeReports(keys: readonly KeyReport[]): string {
  const age = Math.min(...keys.map(({ reportAgeSeconds }) => reportAgeSeconds ?? Infinity));
  const came = age < Infinity ? `The last report came ${formatAge(age)}` : "Nothing was reported";
  return `${came}; refused requests are a lower bound. ${MISSING} means no report in these days. A key in use reports hourly: if the last report of one is older, look into the log.`;
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

/** The page of keys, or of one. It needs no network. */
function page(keys: readonly KeyReport[], days: readonly string[], one?: KeyReport): Html {
  const title = one === undefined ? "API usage" : `API usage of ${one.name}`;
  const range = [...new Set([days[0], days.at(-1)])].join(" to ");
  const total = sumUp(usageOf(keys));
  const counts = FIGURES.slice(0, 3).map((name) => `${name} ${show(total, name)}`);
  const rows = keys.map((key) => ({ ...key, title: html`${key.name}${describeKey(key)}` }));
  const isHindered = ({ refused, bans, bannedUntil }: KeyReport) => refused || bans || bannedUntil;
  const ofKeys = [
    section("Refused or banned", rows.filter(isHindered)),
    section("Near a limit", rows.filter(isNear)),
    section("All keys, the busiest first", rows),
  ];
  // Forbids scripts, because names of keys are untrusted text.
  const policy = "default-src 'none'; style-src 'unsafe-inline'";
  return html`<!doctype html>
    <html lang="en">
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta http-equiv="Content-Security-Policy" content="${policy}" />
      <title>${title}, ${range}</title>
      <style>
        ${raw(STYLE)}
      </style>
      <header>
        <h1>${title}</h1>
        ${one && html`<p>${describeKey(one)}</p>`}
        <p>${range}, days in UTC: ${counts.join(", ")}</p>
        <p>${describeReports(keys)}</p>
      </header>
      <main>
        ${one === undefined && ofKeys} ${section("By day, the newest first", sumUpDays(keys, days))}
      </main>
    </html>`;
}

function describeKey({ id, plan, bannedUntil, reportAgeSeconds: age }: KeyReport): Html {
  const ban = bannedUntil && html`<strong>Banned until ${formatTime(bannedUntil)}.</strong>`;
  return html`<small>${id}, ${plan}, last report: ${formatAge(age)}</small>${ban}`;
}

function section(heading: string, rows: readonly (Figures & { title: string | Html })[]): Html {
  const titles = ["", ...FIGURES.map((name) => name.replace(/(.*)Peak/, "fullest $1"))];
  const head = titles.map((title) => html`<th scope="col">${title}</th>`);
  const cell = (row: Figures, name: FigureName) => {
    const meter = html`<meter value="${row[name]}" high="${NEAR_LIMIT}"></meter>`;
    return html`<td>${show(row, name)}${isPeak(name) && row[name] !== null && meter}</td>`;
  };
  const body = rows.map(
    (row) =>
      html`<tr>
        <th scope="row">${row.title}</th>
        ${FIGURES.map((name) => cell(row, name))}
      </tr>`,
  );
  const table = html`<table aria-label="${heading}">
    <thead>
      <tr>
        ${head}
      </tr>
    </thead>
    <tbody>
      ${body}
    </tbody>
  </table>`;
  return html`<h2>${heading}</h2>
    ${rows.length === 0 ? html`<p>No key is known to be.</p>` : table}`;
}

const isPeak = (name: string) => name.endsWith("Peak");

/** Formats a number, or a share from 0 to 1 as in `87 %`. */
function show(figures: Figures, name: FigureName): string {
  const value = figures[name];
  if (value === null) return MISSING;
  return isPeak(name) ? `${Math.round(value * 100)} %` : formatNumber(value);
}
