import { createHash } from "node:crypto";
import { readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { build } from "esbuild";
import { html, raw } from "hono/html";
import { pageFigures } from "./page-figures.ts";
import type { UsageReport } from "./usage-report.ts";
import { pageSections } from "./page-sections.ts";

const PAGE = join(import.meta.dirname, "..", "usage-page");

/**
 * Writes a usage report as one HTML file with its script and style, which needs no network. An
 * existing file is replaced once the page is complete.
 *
 * @throws an Error for the operator if the file cannot be written.
 */
export async function writeUsagePage(report: UsageReport, file: string, now: Date): Promise<void> {
  const folder = dirname(file);
  const isFolder = (await stat(folder).catch(() => undefined))?.isDirectory();
  if (isFolder !== true) throw new Error(`there is no folder ${folder} to write the page into`);
  const existing = await stat(file).catch(() => undefined);
  if (existing?.isDirectory()) throw new Error(`${file} is a folder`);
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    await writeFile(temporary, await usagePage(report, now), { flag: "wx" });
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

async function usagePage(report: UsageReport, now: Date): Promise<string> {
  const figures = pageFigures(report);
  const style = await readFile(join(PAGE, "style.css"), "utf8");
  const script = await bundle();
  const { days, reportedAt } = report;
  const [first = "", last = ""] = [days[0], days.at(-1)];
  return String(
    await html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="color-scheme" content="light dark" />
          <meta http-equiv="Content-Security-Policy" content="${contentPolicy(script)}" />
          <title>API usage, ${first} to ${last}</title>
          <link rel="icon" href="data:," />
          <style>
            ${raw(style)}
          </style>
        </head>
        <body>
          <header>
            <h1>API usage</h1>
            <p class="range">
              ${first === last ? "" : html`${dayTime(first)} to `}${dayTime(last)}, days in UTC
            </p>
            <p class="note">
              ${
                reportedAt === null
                  ? "No key has reported anything on these days."
                  : html`As reported by the keys until ${time(reportedAt)}. Each key reports once an
                    hour while it is used. Admitted requests and bans are exact up to the last
                    report. Refused requests and strikes are lower bounds.`
              }
              Made ${time(now)}.
            </p>
          </header>
          <main>${pageSections(figures)}</main>
          ${raw(`<script type="application/json" id="figures">${scriptJson(figures)}</script>`)}
          ${raw(`<script>${script}</script>`)}
        </body>
      </html>`,
  );
}

/** Allows only the page's own script to run, because names of keys are untrusted text. */
function contentPolicy(script: string): string {
  const hash = createHash("sha256").update(script).digest("base64");
  return `default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-${hash}'`;
}

/** Escapes `<`, so that no text in the JSON ends the script element. */
function scriptJson(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}

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

function dayTime(day: string) {
  return html`<time datetime="${day}">${day}</time>`;
}

function time(at: Date) {
  const text = at.toISOString();
  return html`<time datetime="${text}">${text.slice(0, 16).replace("T", " ")} UTC</time>`;
}
