import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { BrowserContextOptions, Page } from "playwright-core";
import { findChromium, launchChromium } from "./chromium.ts";

// Takes the screenshots of the reference page in docs/, for `npm run screenshots`. Starts a service
// with a new store, so that the screenshots show the sample orders.

const DOCS = join(import.meta.dirname, "..", "..", "docs");

/** The port of the documents' examples, because the screenshots show the service's address. */
const PORT = 8_787;

const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true };

const path = findChromium();
if (path === undefined)
  throw new Error("There is no Chromium here. Install it, or set CHROMIUM_PATH.");
const store = await mkdtemp(join(tmpdir(), "store-orders-screenshots-"));
const service = spawn(
  process.execPath,
  ["src/operator/main.ts", "start", "--port", String(PORT), "--persist-to", store],
  { cwd: join(DOCS, ".."), stdio: ["ignore", "pipe", "inherit"] },
);
let key = "";
for await (const line of createInterface(service.stdout)) {
  key ||= /^ +pro +(sord_\w+)$/.exec(line)?.[1] ?? "";
  if (line.startsWith("Serving on")) break;
}
if (service.exitCode !== null) throw new Error("The service has not started.");
const browser = await launchChromium(path);

const list = async (page: Page) => {
  await page.locator("#key").fill(key);
  await page.locator("#list button[type=submit]").click();
  await page.locator("#orders").waitFor();
};

async function take(
  name: string,
  options: BrowserContextOptions,
  prepare: (page: Page) => Promise<void>,
): Promise<void> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  await page.goto(`http://localhost:${PORT}`);
  await prepare(page);
  await page.screenshot({ path: join(DOCS, name) });
  await context.close();
  console.log(`docs/${name}`);
}

try {
  await take("reference-first-call.png", { colorScheme: "light" }, async () => {});
  await take("reference-console.png", { colorScheme: "dark" }, async (page) => {
    await list(page);
    await page.getByRole("button", { name: "Cancel order 1002" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel order" }).click();
    await page.locator("tr.cancelled").waitFor();
    await page.locator("#try").evaluate((section) => section.scrollIntoView());
  });
  await take("reference-phone.png", PHONE, list);
} finally {
  await browser.close();
  const ended = once(service, "exit");
  service.kill("SIGTERM");
  await ended;
  await rm(store, { recursive: true });
}
