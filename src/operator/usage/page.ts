import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { html, raw } from "hono/html";
import { replaceFile } from "../replace-file.ts";
import { formatCount } from "../terminal-text.ts";
import { figure, type Html } from "./plots.ts";
import { sections } from "./sections.ts";
import { completeBy, type KeyReport, type UsageReport } from "./usage-report.ts";

/** Forbids scripts, because names of keys are untrusted text. */
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

/**
 * Writes the usage of all keys, or of one key, to an HTML file. The file contains its style and no
 * script, so it needs no network. Replaces an existing file only when the page is complete.
 *
 * @throws an Error for the operator if the file cannot be written.
 */
export async function writeUsagePage(
  report: UsageReport,
  key: KeyReport | undefined,
  file: string,
  now: Date,
): Promise<void> {
  const text = await page(report, key, now);
  await replaceFile(file, (temporary) => writeFile(temporary, text, { flag: "wx" }));
}

async function page(report: UsageReport, key: KeyReport | undefined, now: Date): Promise<string> {
  const style = await readFile(join(import.meta.dirname, "page.css"), "utf8");
  const [first = "", last = ""] = [report.days[0], report.days.at(-1)];
  const title = key === undefined ? "API usage" : `API usage of ${key.name}`;
  return String(
    await html`<!doctype html>
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
            <p class="note">${provenance(report, key, now)} Made ${time(now)}.</p>
          </header>
          <main>${sections(report, key, now)}</main>
        </body>
      </html>`,
  );
}

function description({ id, plan, limits, bannedUntil }: KeyReport): Html {
  return html`<p class="key">
    <code>${id}</code>, ${plan} plan: ${figure(limits.perMinute)} requests a minute,
    ${figure(limits.perDay)} a day.
    ${bannedUntil !== null && html`<strong>Banned until ${time(bannedUntil)}.</strong>`}
  </p>`;
}

/** Returns sentences that say how far the figures of the page are known. */
function provenance(
  { reportedAt, keys }: UsageReport,
  key: KeyReport | undefined,
  now: Date,
): Html {
  const silent = (key === undefined ? keys : [key]).filter((one) => one.reportedAt === null).length;
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

function time(at: Date): Html {
  const text = at.toISOString();
  return html`<time datetime="${text}">${text.slice(0, 16).replace("T", " ")} UTC</time>`;
}
