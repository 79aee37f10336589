import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import * as databases from "../../../src/operator/database/database.ts";
import { apiKeys, keyUsage } from "../../../src/schema/keys.ts";
import { PLAN_LIMITS, type Plan } from "../../../src/rules/limits/plans.ts";
import { findChromium, launchChromium } from "../../site/chromium.ts";
import { violations } from "../../site/violations.ts";
import { OpenStore } from "../store-folder.ts";

const NOW = new Date("2026-11-21T10:30:00Z");
const DAY_MS = 86_400_000;
/** A key's name that runs a script or breaks the page if the page does not escape it. */
const HOSTILE_NAME = `</script><b>x</b><script>document.title = "taken over"</script><!--`;

type Box = Record<"x" | "y" | "width" | "height", number>;

/** Adds a key, and a row of usage for each count in `admitted`. The last row is for today. */
async function addKey(
  store: OpenStore,
  [id, name, plan]: readonly [id: string, name: string, plan: Plan],
  admitted: readonly number[],
  usageOf: (index: number) => object = () => ({}),
): Promise<void> {
  const database = await store.database("keys");
  const own = plan === "enterprise" ? { perMinute: 5_000, perDay: 500_000 } : null;
  const key = database.orm
    .insert(apiKeys)
    .values({ id, name, plan, ...own, hash: id, lastFour: "abcd", createdAt: NOW });
  const limits = own ?? PLAN_LIMITS[plan as "free"];
  const peaks = { peakMinute: limits.perMinute / 2, peakDay: limits.perDay / 4 };
  const counts = { refused: 0, strikes: 0, bans: 0, ...peaks, ...limits, reportedAt: NOW };
  const inserts = admitted.map((count, index) => {
    const date = new Date(NOW.getTime() - (admitted.length - 1 - index) * DAY_MS);
    const day = date.toISOString().slice(0, 10);
    const row = { keyId: id, day, admitted: count, ...counts, ...usageOf(index) };
    return database.orm.insert(keyUsage).values(row);
  });
  await database.transaction([key, ...inserts]);
}

const chromium = findChromium();

describe.skipIf(chromium === undefined)("keys usage --html in a browser", () => {
  const store = new OpenStore();
  let browser: Browser;
  let complaints: string[] = [];

  beforeAll(async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: NOW });
    vi.spyOn(databases, "databaseTime").mockImplementation(async () => new Date());
    browser = await launchChromium(chromium ?? "");
    const rise = Array.from({ length: 14 }, (_, index) => (index + 1) * 1_000);
    await addKey(store, ["key_zoo", "Zoo", "enterprise"], rise);
    await addKey(store, ["key_shop", HOSTILE_NAME, "pro"], rise, (index) => ({
      admitted: rise[index]! / 2,
      refused: 500,
      bans: index === 13 ? 4 : 2,
      peakMinute: index < 10 ? 300 : 600,
      perMinute: index < 10 ? 300 : 600,
    }));
    await addKey(store, ["key_idle", "Idle", "free"], []);
  });
  // After every test, checks that the browser logged nothing and requested only the page's file.
  afterEach(() => expect(complaints.splice(0)).toStrictEqual([]));
  afterAll(async () => {
    vi.useRealTimers();
    await browser?.close();
    await store.close();
  });

  async function open(
    args: readonly string[] = [],
    options: BrowserContextOptions = {},
  ): Promise<Page> {
    const file = join(store.path, "usage.html");
    expect(await store.keys("usage", ...args, "--html", file)).toMatchObject({ status: 0 });
    const viewport = { width: 1280, height: 900 };
    const context = await browser.newContext({ viewport, ...options });
    const page = await context.newPage();
    page.on("console", (message) => complaints.push(message.text()));
    page.on("request", (request) => {
      if (!/^(file|data):/.test(request.url())) complaints.push(request.url());
    });
    await page.goto(`file://${file}`);
    return page;
  }

  const table = (page: Page, name: string) => page.getByRole("table", { name });
  const rows = async (page: Page, name: string) => {
    const found = await table(page, name).locator("tbody tr").all();
    return Promise.all(
      found.map(async (row) =>
        (await row.locator("td, th").allTextContents()).map((text) =>
          text.trim().replace(/\s+/g, " "),
        ),
      ),
    );
  };
  const bars = async (page: Page, name: string, column: number): Promise<Box[]> =>
    table(page, name)
      .locator(`td:nth-child(${column}) i`)
      .evaluateAll((nodes: any[]) => nodes.map((node) => node.getBoundingClientRect().toJSON()));

  test("says who used how much, who was refused, banned or near a limit", async () => {
    const page = await open();
    const shop = [
      `${HOSTILE_NAME}key_shop, pro: 300 requests a minute, 10,000 a day`,
      "52,500",
      "7,000",
      "30",
      "100 %",
      "25 %",
    ];
    const zoo = [
      "Zookey_zoo, enterprise: 5,000 requests a minute, 500,000 a day",
      "105,000",
      "0",
      "0",
      "50 %",
      "25 %",
    ];
    const idle = ["Idlekey_idle, free: 60 requests a minute, 1,000 a day", "–", "–", "–", "–", "–"];
    expect(await rows(page, "Refused or banned")).toStrictEqual([shop]);
    expect(await rows(page, "Near a limit")).toStrictEqual([shop]);
    expect(await rows(page, "All keys")).toStrictEqual([zoo, shop, idle]);
    const tiles = await page.locator("dd").allTextContents();
    expect(tiles).toStrictEqual(["157,500", "7,000", "30", "1"]);
    expect(await page.title()).toBe("API usage, 2026-11-08 to 2026-11-21");
    expect(await page.locator("b, script").count()).toBe(0);
  });

  test("lists the days, the newest first, with bars in proportion", async () => {
    const page = await open();
    const [today, yesterday] = await rows(page, "By day");
    expect(today).toStrictEqual(["2026-11-21", "21,000", "500", "4", "100 %", "25 %"]);
    expect(yesterday?.[0]).toBe("2026-11-20");
    const admitted = await bars(page, "By day", 2);
    expect(admitted).toHaveLength(14);
    expect(admitted[7]!.width / admitted[0]!.width).toBeCloseTo(0.5, 2);
  });

  test("shows the peaks of one key against the limits of each day", async () => {
    const page = await open(["key_shop"]);
    const days = await rows(page, "By day");
    expect(days[0]?.slice(-2)).toStrictEqual(["100 %", "25 %"]);
    expect(await page.title()).toBe(`API usage of ${HOSTILE_NAME}, 2026-11-08 to 2026-11-21`);
  });

  test.each([[[]], [["key_shop"]]] as const)("is accessible and fits a phone: %j", async (args) => {
    const page = await open(args, { viewport: { width: 390, height: 844 }, isMobile: true });
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await violations(page)).toStrictEqual([]);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
    expect(await violations(page)).toStrictEqual([]);
  });
});
