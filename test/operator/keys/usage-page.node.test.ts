import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import * as databases from "../../../src/operator/database/database.ts";
import { PLAN_LIMITS } from "../../../src/rules/limits/plans.ts";
import { apiKeys, keyUsage } from "../../../src/schema/keys.ts";
import { findChromium, launchChromium } from "../../site/chromium.ts";
import { violations } from "../../site/violations.ts";
import { OpenStore } from "../store-folder.ts";

const NOW = new Date("2026-11-21T10:30:00Z");
/** A key's name that runs a script or breaks the page if the page does not escape it. */
const HOSTILE_NAME = `</script><b>x</b><script>document.title = "taken over"</script><!--`;
const DAYS = Array.from({ length: 14 }, (_, index) => index);
const dayText = (ago: number) =>
  new Date(NOW.getTime() - ago * 86_400_000).toISOString().slice(0, 10);

const chromium = findChromium();

describe.skipIf(chromium === undefined)("keys usage --html in a browser", () => {
  const store = new OpenStore();
  let browser: Browser;
  let complaints: string[] = [];

  beforeAll(async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: NOW });
    vi.spyOn(databases, "databaseTime").mockImplementation(async () => new Date());
    browser = await launchChromium(chromium ?? "");
    const database = await store.database("keys");
    const names = { key_zoo: "Zoo", key_shop: HOSTILE_NAME, key_idle: "Idle" };
    const keys = Object.entries(names).map(([id, name]) => {
      const common = { hash: id, lastFour: "abcd", createdAt: NOW };
      return database.orm.insert(apiKeys).values({ id, name, plan: "pro", ...common });
    });
    const usage = DAYS.flatMap((ago) => {
      const counts = { admitted: (14 - ago) * 1_000, refused: 0, strikes: 0, bans: 0 };
      const peaks = { peakMinute: 150, peakDay: 2_500, ...PLAN_LIMITS.pro, reportedAt: NOW };
      const zoo = { keyId: "key_zoo", day: dayText(ago), ...counts, ...peaks };
      const shop = { keyId: "key_shop", admitted: (14 - ago) * 500, refused: 500, bans: 2 };
      return [zoo, { ...zoo, ...shop, peakMinute: ago === 0 ? 300 : 30 }];
    });
    await database.transaction([
      ...keys,
      ...usage.map((row) => database.orm.insert(keyUsage).values(row)),
    ]);
  });
  // After every test, checks that the browser logged nothing and requested only the page's file.
  afterEach(() => expect(complaints.splice(0)).toStrictEqual([]));
  afterAll(async () => {
    vi.useRealTimers();
    await browser?.close();
    await store.close();
  });

  async function open(...args: readonly string[]): Promise<Page> {
    const file = join(store.path, "usage.html");
    expect(await store.keys("usage", ...args, "--html", file)).toMatchObject({ status: 0 });
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.on("console", (message) => complaints.push(message.text()));
    page.on("request", (request) => {
      if (!/^(file|data):/.test(request.url())) complaints.push(request.url());
    });
    await page.goto(`file://${file}`);
    return page;
  }

  async function rows(page: Page, name: string): Promise<string[][]> {
    const found = await page.getByRole("table", { name }).locator("tbody tr").all();
    const texts = found.map((row) => row.locator("td, th").allTextContents());
    return (await Promise.all(texts)).map((cells) =>
      cells.map((text) => text.trim().replace(/\s+/g, " ")),
    );
  }

  test("says who used how much, who was refused, banned or near a limit, by day", async () => {
    const page = await open();
    const quota = "pro: 300 requests a minute, 10,000 a day";
    const shop = [`${HOSTILE_NAME}key_shop, ${quota}`, "52,500", "7,000", "28", "100 %", "25 %"];
    const zoo = [`Zookey_zoo, ${quota}`, "105,000", "0", "0", "50 %", "25 %"];
    const idle = [`Idlekey_idle, ${quota}`, "–", "–", "–", "–", "–"];
    expect(await rows(page, "Refused or banned")).toStrictEqual([shop]);
    expect(await rows(page, "Near a limit")).toStrictEqual([shop]);
    expect(await rows(page, "All keys")).toStrictEqual([zoo, shop, idle]);
    const tiles = await page.locator("dd").allTextContents();
    expect(tiles).toStrictEqual(["157,500", "7,000", "28", "1"]);
    expect(await page.title()).toBe("API usage, 2026-11-08 to 2026-11-21");
    expect(await page.locator("b, script").count()).toBe(0);
    const days = await rows(page, "By day");
    expect(days[0]).toStrictEqual(["2026-11-21", "21,000", "500", "2", "100 %", "25 %"]);
    expect(days.map(([day]) => day)).toStrictEqual(DAYS.map(dayText));
    const widths: number[] = await page
      .getByRole("table", { name: "By day" })
      .locator("td:nth-child(2) i")
      .evaluateAll((bars: any[]) => bars.map((bar) => bar.getBoundingClientRect().width));
    expect(widths[7]! / widths[0]!).toBeCloseTo(0.5, 2);
  });

  test.each([[[]], [["key_shop"]]])("is accessible and fits a phone: %j", async (args) => {
    const page = await open(...args);
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 844 });
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await violations(page)).toStrictEqual([]);
      }
    }
    const last = (await rows(page, "By day"))[0]?.slice(-2);
    expect(last).toStrictEqual(["100 %", "25 %"]);
  });
});
