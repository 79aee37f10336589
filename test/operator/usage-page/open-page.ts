import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect } from "vitest";
import { writeKeyPage, writeUsagePage } from "../../../src/operator/usage/page.ts";
import type { UsageReport } from "../../../src/operator/usage/usage-report.ts";
import { findChromium, launchChromium } from "../../site/chromium.ts";
import { NOW } from "./report.ts";

const chromium = findChromium();
if (chromium === undefined) {
  console.error(
    "\n!!! No Chromium on this machine: the tests of the usage page are SKIPPED.\n" +
      "!!! Install chromium, or set CHROMIUM_PATH.\n",
  );
}

interface Options extends BrowserContextOptions {
  /** The id of the key whose usage page is opened; by default the page of all keys. */
  readonly keyId?: string;
}

/** Writes the page of a report to a file and opens it in a new browser profile. */
type OpenReport = (report: UsageReport, options?: Options) => Promise<Page>;

/** Describes tests of the usage page in Chromium. Skips them if the machine has no Chromium. */
export function describeUsagePage(name: string, tests: (open: OpenReport) => void): void {
  describe.skipIf(chromium === undefined)(name, () => {
    let folder: string;
    let browser: Browser;
    let complaints: string[] = [];

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "store-orders-usage-"));
      browser = await launchChromium(chromium ?? "");
    });

    afterAll(async () => {
      await browser?.close();
      await rm(folder, { recursive: true, force: true });
    });

    // After every test, checks that the browser logged nothing and that the page requested only its
    // own file.
    afterEach(() => expect(complaints.splice(0)).toStrictEqual([]));

    tests(async (report, { keyId, ...options } = {}) => {
      const file = join(folder, "usage.html");
      const key = report.keys.find(({ id }) => id === keyId);
      if (key === undefined) await writeUsagePage(report, file, NOW);
      else await writeKeyPage(key, report, file, NOW);
      const context = await browser.newContext({
        viewport: { width: 1280, height: 900 },
        ...options,
      });
      const page = await context.newPage();
      page.on("console", (message) => complaints.push(message.text()));
      page.on("pageerror", (error) => complaints.push(error.message));
      page.on("request", (request) => {
        if (!/^(file|data):/.test(request.url())) complaints.push(request.url());
      });
      await page.goto(`file://${file}`);
      if (options.javaScriptEnabled !== false) await drawn(page);
      return page;
    });
  });
}

async function drawn(page: Page): Promise<void> {
  for (const container of await page.locator("[data-plot]").all()) {
    await container.locator("svg.plot").waitFor({ state: "visible" });
  }
}
