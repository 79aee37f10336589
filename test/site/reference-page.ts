import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page, Response } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished } from "vitest";
import { openLocalStore } from "../../src/operator/database/local.ts";
import { loadSampleStore } from "../../src/operator/start/sample-store.ts";
import type { Plan } from "../../src/worker/limit-rules/plans.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { copyProject, Service } from "../process/service.ts";
import { differencesFromDocument } from "../../src/openapi/documented-answer.ts";
import { findChromium, launchChromium } from "./chromium.ts";

const chromium = findChromium();
if (chromium === undefined) {
  console.error(
    "\n!!! No Chromium on this machine: the tests of the reference page are SKIPPED.\n" +
      "!!! Install chromium, or set CHROMIUM_PATH.\n",
  );
}

interface OpenOptions extends BrowserContextOptions {
  /** Whether to install a fake clock in the page; by default, the page uses the real time. */
  readonly clock?: boolean;
  /** The path and fragment to open; by default `/`. */
  readonly path?: string;
  /** The origin at which the browser sees the service; by default the service's own. */
  readonly origin?: string;
}

/** The reference page on a real service, for tests in a real browser. */
export interface ReferencePage {
  readonly origin: string;
  readonly demoKeys: Readonly<Record<Plan, string>>;
  /** Opens the page in a new browser profile, and waits until it is loaded. */
  open(options?: OpenOptions): Promise<OpenPage>;
}

/** The operator's address, which the service under test shows to callers. */
export const CONTACT = "orders@shop.example";

/** An open page, with a record of its requests, its API responses and its console messages. */
interface OpenPage {
  readonly page: Page;
  readonly origin: string;
  /** Errors and warnings in the browser's console, except those about 4xx and 5xx API responses. */
  readonly complaints: string[];
  readonly requests: string[];
  /** The responses of the API. */
  readonly answers: Response[];
}

/**
 * Describes tests of the reference page in Chromium. Skips the tests if the machine has no
 * Chromium.
 */
export function describePage(name: string, tests: (reference: ReferencePage) => void): void {
  describe.skipIf(chromium === undefined)(name, () => {
    const store = new StoreFolder();
    let demoKeys: Record<Plan, string>;
    let service: Service;
    let browser: Browser;
    const opened: OpenPage[] = [];
    const reference: ReferencePage = {
      get origin() {
        return `http://localhost:${service.port}`;
      },
      get demoKeys() {
        return demoKeys;
      },
      async open(options) {
        const open = await openPage(browser, service.port, options);
        opened.push(open);
        return open;
      },
    };

    beforeAll(async () => {
      demoKeys = await makeSampleStore(store);
      // Counts every refusal towards a ban, even in the ten seconds after the first refusal.
      const root = copyProject(join(store.path, "project"), "BAN_GRACE_SECONDS=0");
      const settings = join(root, "wrangler.toml");
      const text = readFileSync(settings, "utf8");
      writeFileSync(
        settings,
        text.replace(/(?<=^command = ".*)(?=")/m, ` -- --contact ${CONTACT}`),
      );
      [service, browser] = await Promise.all([
        Service.start(store.path, { root }),
        launchChromium(chromium ?? ""),
      ]);
    });

    afterAll(async () => {
      await browser?.close();
      await service?.end("SIGTERM");
      store.remove();
    });

    // After every test, checks that the browser logged no errors, that the page sent no requests to
    // other origins, and that every API response matches the OpenAPI document.
    afterEach(async () => {
      for (const { origin, complaints, requests, answers } of opened.splice(0)) {
        expect(complaints).toStrictEqual([]);
        expect(requests.filter((url) => !url.startsWith(`${origin}/`))).toStrictEqual([]);
        // Skips the requests that the page aborted: their responses have no complete body.
        const complete = answers.filter((answer) => answer.request().failure() === null);
        for (const answer of complete) expect(await differences(answer)).toStrictEqual([]);
      }
    });

    tests(reference);
  });
}

async function makeSampleStore(store: StoreFolder): Promise<Record<Plan, string>> {
  await store.make();
  await using databases = await openLocalStore(store.path);
  const keys = await loadSampleStore(databases, "test", new Date());
  return Object.fromEntries(keys.map(({ plan, secret }) => [plan, secret])) as Record<Plan, string>;
}

async function openPage(
  browser: Browser,
  port: number,
  { clock = false, path = "/", origin, ...options }: OpenOptions = {},
): Promise<OpenPage> {
  const service = `http://localhost:${port}`;
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  onTestFinished(() => context.close());
  if (origin !== undefined) {
    await context.route(`${origin}/**`, async (route) => {
      const url = route.request().url().replace(origin, service);
      await route.fulfill({ response: await route.fetch({ url }) });
    });
  }
  const page = await context.newPage();
  const open = { page, origin: origin ?? service, complaints: [], requests: [], answers: [] };
  watch(open);
  if (clock) await page.clock.install();
  await page.goto(`${open.origin}${path}`);
  return open;
}

function watch({ page, origin, complaints, requests, answers }: OpenPage): void {
  page.on("console", (message) => {
    const isOfAnswer = message.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(message.type()) && !isOfAnswer) {
      complaints.push(message.text());
    }
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith("data:")) requests.push(request.url());
  });
  page.on("response", (response) => {
    if (response.url().startsWith(`${origin}/v1`)) answers.push(response);
    else if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
  });
}

async function differences(response: Response): Promise<string[]> {
  const { pathname, search } = new URL(response.url());
  const hasBody = ![204, 304].includes(response.status());
  return differencesFromDocument({
    method: response.request().method(),
    path: `${pathname}${search}`,
    status: response.status(),
    headers: new Headers(await response.allHeaders()),
    body: hasBody ? await response.text() : "",
  });
}

/** The CSS selector of the latest response's status in the console. */
export const STATUS = ".status-line b";

/** Puts a key into the console and lists the orders with it. */
export async function listOrders(page: Page, key: string): Promise<void> {
  await page.locator("#key").fill(key);
  await page.locator("#list").getByRole("button", { name: "List orders" }).click();
  await page.locator(STATUS).waitFor();
}

/** Waits until the text of an element matches. */
export async function expectText(page: Page, selector: string, expected: RegExp): Promise<void> {
  await expect
    .poll(() => page.locator(selector).innerText(), { timeout: 10_000 })
    .toMatch(expected);
}
