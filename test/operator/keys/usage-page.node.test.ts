import { join } from "node:path";
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { insertInto } from "../../support/row.ts";
import type { ReportedDay } from "../../../src/operator/usage/usage-report.ts";
import { PLAN_LIMITS, type Plan } from "../../../src/rules/limits/plans.ts";
import { findChromium, launchChromium } from "../../site/chromium.ts";
import { violations } from "../../site/violations.ts";
import { OpenStore } from "../store-folder.ts";

const NOW = new Date("2026-11-21T10:30:00Z");
const DAY_MS = 86_400_000;
/** A key's name that runs a script or breaks the page if the page does not escape it. */
const HOSTILE_NAME = `</script><b>x</b><script>document.title = "taken over"</script><!--`;
const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };

type Box = Record<"x" | "y" | "width" | "height", number>;

/** Adds a key, and a row of usage for each count in `admitted`. The last row is for today. */
async function addKey(
  store: OpenStore,
  [id, name, plan]: readonly [id: string, name: string, plan: Plan],
  admitted: readonly number[],
  usageOf: (index: number) => Partial<ReportedDay> = () => ({}),
): Promise<void> {
  const database = await store.database("keys");
  const own = plan === "enterprise" ? { perMinute: 5_000, perDay: 500_000 } : null;
  const key = insertInto("api_keys", {
    id,
    name,
    plan,
    ...own,
    hash: id,
    lastFour: "abcd",
    createdAt: NOW,
  });
  const limits = own ?? PLAN_LIMITS[plan as "free"];
  const peaks = { peakMinute: limits.perMinute / 2, peakDay: limits.perDay / 4 };
  const counts = { refused: 0, strikes: 0, bans: 0, ...peaks, ...limits, reportedAt: NOW };
  const inserts = admitted.map((count, index) => {
    const date = new Date(NOW.getTime() - (admitted.length - 1 - index) * DAY_MS);
    const day = date.toISOString().slice(0, 10);
    const row = { keyId: id, day, admitted: count, ...counts, ...usageOf(index) };
    return insertInto("key_usage", row);
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
    from = store,
  ): Promise<Page> {
    const file = join(from.path, "usage.html");
    expect(await from.keys("usage", ...args, "--html", file)).toMatchObject({ status: 0 });
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

  const panel = (page: Page, title: string) =>
    page.locator(".panel", { has: page.getByRole("heading", { name: title }) });
  const bars = (page: Page, title: string) => boxes(panel(page, title).locator(".day > i"));
  const boxes = (marks: Locator): Promise<Box[]> =>
    marks.evaluateAll((nodes: any[]) => nodes.map((node) => node.getBoundingClientRect().toJSON()));
  const cells = async (row: Locator) =>
    (await row.locator("td, th").allTextContents()).map((text) => text.trim());

  test("draws days and keys in proportion, and today hatched", async () => {
    const page = await open();
    const enterprise = await boxes(
      panel(page, "Requests admitted").locator(".day > i[style*=enterprise]"),
    );
    expect(enterprise).toHaveLength(14);
    expect(enterprise[13]!.height / enterprise[6]!.height).toBeCloseTo(2, 1);
    const labels = panel(page, "Requests admitted").locator(".label");
    expect(await labels.allTextContents()).toStrictEqual(["Nov 9", "Nov 13", "Nov 17", "Nov 21"]);
    const lefts = enterprise.map(({ x }) => x);
    expect(lefts).toStrictEqual(lefts.toSorted((one, other) => one - other));
    const bans = await bars(page, "Bans that began");
    expect(bans[13]!.height / bans[12]!.height).toBeCloseTo(2, 1);
    expect(await page.locator(".open > i").count()).toBe(3 + 1 + 1);

    const busiest = panel(page, "The busiest keys");
    expect((await cells(busiest.locator("tbody tr").nth(1))).join()).toBe(
      `${HOSTILE_NAME},key_shop,pro,52,500,7,000,0,30,100 %,25 %`,
    );
    const admitted = await boxes(busiest.locator("td:nth-child(4) i"));
    expect(admitted[1]!.width / admitted[0]!.width).toBeCloseTo(0.5, 2);
    const nearest = panel(page, "The keys nearest").locator("tbody th");
    expect(await nearest.allTextContents()).toStrictEqual([HOSTILE_NAME, "Zoo"]);
    const refused = panel(page, "The banned and refused").locator("tbody th");
    expect(await refused.allTextContents()).toStrictEqual([HOSTILE_NAME]);
    const tiles = await page.locator(".tiles dd").allTextContents();
    expect(tiles).toStrictEqual([
      "157,500requests",
      "7,0004.3 % of all, 0 strikes",
      "30keys: 1",
      "2of 3",
      "1keys at 80 % or more",
    ]);
    expect(await page.locator("header").textContent()).toContain("1 key reported nothing");
    expect(await page.title()).toBe("API usage, 2026-11-08 to 2026-11-21");
    expect(await page.locator("b:not(.limit, .near), script").count()).toBe(0);
  });

  test("shows all figures of the day under the pointer, and in the table", async () => {
    const page = await open();
    const refused = panel(page, "Requests refused");
    const tip = refused.locator(".tip").last();
    expect(await tip.isVisible()).toBe(false);
    const today = refused.locator(".day").last();
    await today.hover({ position: { x: 4, y: 4 } });
    expect(await tip.isVisible()).toBe(true);
    expect((await tip.textContent())!.trim().split("\n")).toStrictEqual([
      "Saturday, November 21, 2026",
      "refused: 500",
      "of all: 2.3 %",
      "strikes: 0",
      "reports to come",
    ]);
    await refused.locator("summary").focus();
    await page.keyboard.press("Enter");
    const row = await cells(refused.locator("tbody tr").last());
    expect(row).toStrictEqual(["2026-11-21", "500", "2.3 %", "0"]);
  });

  test("draws the limit of each day on the page of a key", async () => {
    const page = await open(["key_shop"]);
    const minute = panel(page, "The fullest minute of each day");
    const requests = await bars(page, "The fullest minute of each day");
    const limits = await boxes(minute.locator(".limit"));
    const near = await boxes(minute.locator(".near"));
    const base = requests[0]!.y + requests[0]!.height;
    for (const [day, { y, height }] of requests.entries()) {
      expect(Math.abs(limits[day]!.y + limits[day]!.height - y)).toBeLessThan(2);
      expect((base - near[day]!.y) / height).toBeCloseTo(0.8, 1);
    }
    expect((base - limits[10]!.y) / (base - limits[9]!.y)).toBeCloseTo(2, 1);
    const day = panel(page, "The fullest day of each day");
    const [plot] = await boxes(day.locator(".plot"));
    const [limit] = await boxes(day.locator(".limit"));
    expect(limit!.y).toBeGreaterThan(plot!.y - 3);
    const row = await cells(day.locator("tbody tr").last());
    expect(row).toStrictEqual(["2026-11-21", "2,500", "10,000", "25 %"]);
    expect(await page.title()).toBe(`API usage of ${HOSTILE_NAME}, 2026-11-08 to 2026-11-21`);
    const [, , , fullestMinute, fullestDay] = await page.locator(".tiles dd").allTextContents();
    expect([fullestMinute, fullestDay]).toStrictEqual(["100 %of its limit", "25 %of its limit"]);
  });

  test.each([
    [[], ["light", "dark"]],
    [["key_shop"], ["dark"]],
  ] as const)("is accessible, prints and fits a phone: %j", async (args, schemes) => {
    const page = await open(args, PHONE);
    expect(await page.evaluate("scrollTo(1000, 0), scrollX")).toBe(0);
    const closed = page.locator("details:not([open])").first();
    const ground = () =>
      page.evaluate("getComputedStyle(document.querySelector('.panel')).backgroundColor");
    await page.emulateMedia({ colorScheme: "dark" });
    const dark = await ground();
    await page.emulateMedia({ colorScheme: "dark", media: "print" });
    expect(await closed.isVisible()).toBe(false);
    expect(await ground()).not.toBe(dark);
    await page.emulateMedia({ media: null });
    await page.evaluate(
      "document.querySelectorAll('details').forEach((table) => (table.open = true))",
    );
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme });
      expect(await violations(page)).toStrictEqual([]);
    }
    expect(await page.evaluate("scrollTo(1000, 0), scrollX")).toBe(0);
  });

  test("shows a year, and the first 20 of many keys", async () => {
    const many = new OpenStore();
    await addKey(many, ["key_a", "A", "pro"], Array<number>(366).fill(100));
    for (let index = 0; index < 22; index += 1) {
      await addKey(many, [`key_${index}`, `Shop ${index}`, "free"], [40_000 + index]);
    }
    const page = await open(["--days", "366"], {}, many);
    const drawn = await boxes(panel(page, "Requests admitted").locator(".day > i[style*=pro]"));
    expect(drawn.filter(({ width, height }) => width > 0.5 && height > 0)).toHaveLength(366);
    const busiest = panel(page, "The busiest keys");
    expect(await busiest.locator("tbody tr").count()).toBe(20);
    expect(await busiest.locator("tbody th").first().textContent()).toBe("Shop 21");
    expect(await busiest.textContent()).toContain("These are the first 20; 3 more are left out.");
    await many.close();
  });
});
