import { createHash } from "node:crypto";
import { readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { build } from "esbuild";
import { html, raw } from "hono/html";
import { pageFigures } from "./page-figures.ts";
import { keyPageFigures, keyPageSections } from "./key-page.ts";
import { count, dayTime } from "./page-parts.ts";
import { pageSections } from "./page-sections.ts";
import type { KeyReport, UsageReport } from "./usage-report.ts";

type Html = ReturnType<typeof html>;

const PAGE = join(import.meta.dirname, "..", "usage-page");

/** The content of a usage page. */
interface Content {
  readonly title: string;
  /** The HTML below the title. */
  readonly subtitle: Html;
  readonly body: Html;
  /** The figures that the page's script draws. */
  readonly figures: unknown;
}

/**
 * Writes the usage of all keys to an HTML file. The file contains its script and style, so it needs
 * no network. Replaces an existing file only when the page is complete.
 *
 * @throws an Error for the operator if the file cannot be written.
 */
export async function writeUsagePage(report: UsageReport, file: string, now: Date): Promise<void> {
  const figures = pageFigures(report, now);
  const body = pageSections(figures);
  const content = { title: "API usage", subtitle: html``, body, figures };
  await writePage(file, () => page(content, report, now));
}

/** Writes the usage of one key to an HTML file, as `writeUsagePage` does for all keys. */
export async function writeKeyPage(
  key: KeyReport,
  report: UsageReport,
  file: string,
  now: Date,
): Promise<void> {
  const figures = keyPageFigures(key, report, now);
  const { id, name, plan, limits, bannedUntil } = key;
  const subtitle = html`<p class="key">
    <code>${id}</code>, ${plan} plan: ${count(limits.perMinute)} requests a minute,
    ${count(limits.perDay)} a day.
    ${bannedUntil === null ? "" : html`<strong>Banned until ${time(bannedUntil)}.</strong>`}
  </p>`;
  const body = keyPageSections(key, figures);
  const content = { title: `API usage of ${name}`, subtitle, body, figures };
  await writePage(file, () => page(content, report, now));
}

async function writePage(file: string, text: () => Promise<string>): Promise<void> {
  const folder = dirname(file);
  const isFolder = (await stat(folder).catch(() => undefined))?.isDirectory();
  if (isFolder !== true) throw new Error(`there is no folder ${folder} to write the page into`);
  const existing = await stat(file).catch(() => undefined);
  if (existing?.isDirectory()) throw new Error(`${file} is a folder`);
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    await writeFile(temporary, await text(), { flag: "wx" });
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

async function page(
  { title, subtitle, body, figures }: Content,
  { days, reportedAt }: UsageReport,
  now: Date,
): Promise<string> {
  const style = await readFile(join(PAGE, "style.css"), "utf8");
  const code = await (script ??= bundle());
  const [first = "", last = ""] = [days[0], days.at(-1)];
  return String(
    await html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="color-scheme" content="light dark" />
          <meta http-equiv="Content-Security-Policy" content="${contentPolicy(code)}" />
          <title>${title}, ${first} to ${last}</title>
          <link rel="icon" href="data:," />
          <style>
            ${raw(style)}
          </style>
        </head>
        <body>
          <header>
            <h1>${title}</h1>
            ${subtitle}
            <p class="range">
              ${first === last ? "" : html`${dayTime(first)} to `}${dayTime(last)}, days in UTC
            </p>
            <p class="note">
              ${
                reportedAt === null
                  ? "Nothing has been reported on these days."
                  : html`As reported until ${time(reportedAt)}. Each key reports once an hour while
                    it is used. Admitted requests and bans are exact up to the last report. Refused
                    requests and strikes are lower bounds.`
              }
              Made ${time(now)}.
            </p>
          </header>
          <main>${body}</main>
          ${raw(`<script type="application/json" id="figures">${scriptJson(figures)}</script>`)}
          ${raw(`<script>${code}</script>`)}
        </body>
      </html>`,
  );
}

/**
 * Returns the Content-Security-Policy of a usage page. The policy allows only the page's own
 * script, because names of keys are untrusted text.
 */
function contentPolicy(script: string): string {
  const hash = createHash("sha256").update(script).digest("base64");
  return `default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-${hash}'`;
}

/**
 * Converts a value to JSON for a script element. Escapes `<`, so that no text in the value ends the
 * script element.
 */
function scriptJson(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}

/** The script, which is the same on every page. Tests write many pages in one process. */
let script: Promise<string> | undefined;

async function bundle(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(PAGE, "main.ts")],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2022",
    legalComments: "inline",
    logLevel: "error",
  });
  const [file] = outputFiles;
  if (file === undefined) throw new Error("esbuild made no file.");
  return file.text;
}

function time(at: Date) {
  const text = at.toISOString();
  return html`<time datetime="${text}">${text.slice(0, 16).replace("T", " ")} UTC</time>`;
}
