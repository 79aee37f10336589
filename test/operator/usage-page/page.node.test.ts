import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { violations } from "../../site/violations.ts";
import { describeUsagePage } from "./open-page.ts";
import { coloursOf } from "./pixels.ts";
import { crowd, fortnight, HOSTILE_NAME, reportOf } from "./report.ts";

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };
const PLOTS = ["traffic", "outcomes", "limits", "busiest", "banned"];

/** For people to look at. No test compares them, because fonts differ between machines. */
const SCREENSHOTS = join(import.meta.dirname, "..", "..", "..", "dist", "screenshots");

/** Some colours of the page in both modes. */
const COLOURS = {
  light: { pro: "rgb(47, 111, 224)", refused: "rgb(201, 70, 61)", panel: "rgb(255, 255, 255)" },
  dark: { pro: "rgb(111, 157, 255)", refused: "rgb(255, 143, 134)", panel: "rgb(26, 31, 40)" },
};

const plot = (page: Page, name: string) => page.locator(`[data-plot=${name}] svg.plot`);

/** Returns the boxes of marks, in the order of the page. */
function boxes(marks: Locator) {
  return marks.evaluateAll((found) =>
    found.map((mark) => {
      const { x, y, width, height } = mark.getBoundingClientRect();
      return { x, y, width, height };
    }),
  );
}

const bars = (page: Page, name: string) => boxes(plot(page, name).locator("[aria-label=bar] rect"));

describeUsagePage("the page of a usage report", (open) => {
  beforeAll(() => mkdir(SCREENSHOTS, { recursive: true }));

  test.each(["light", "dark"] as const)("shows every plot in %s mode", async (colorScheme) => {
    const page = await open(fortnight(), { colorScheme });
    await page.screenshot({ path: join(SCREENSHOTS, `${colorScheme}.png`), fullPage: true });
    const { pro, refused, panel } = COLOURS[colorScheme];
    for (const name of PLOTS) {
      const path = join(SCREENSHOTS, `${colorScheme}-${name}.png`);
      const colours = await coloursOf(plot(page, name), path);
      expect(colours.get(panel)).toBeLessThan(0.98);
      expect(colours.size).toBeGreaterThan(5);
      if (name === "traffic") expect(colours.get(pro)).toBeGreaterThan(0.03);
      if (name === "outcomes") expect(colours.get(refused)).toBeGreaterThan(0.002);
      if (name === "banned") expect(colours.get(refused)).toBeGreaterThan(0.05);
    }
  });

  test("draws the days side by side and in proportion", async () => {
    const page = await open(fortnight());
    const enterprise = await boxes(plot(page, "traffic").locator("rect[fill='var(--enterprise)']"));
    expect(enterprise).toHaveLength(14);
    const lefts = enterprise.map(({ x }) => x);
    expect(lefts).toStrictEqual(lefts.toSorted((one, other) => one - other));
    expect(enterprise[13]!.height / enterprise[6]!.height).toBeCloseTo(2, 1);
    const outcomes = await boxes(plot(page, "outcomes").locator("[aria-label=rect] rect"));
    const [admitted, refused] = [outcomes[13]!, outcomes.at(-1)!];
    expect(admitted.x).toBeCloseTo(refused.x, 0);
    expect(admitted.y + admitted.height).toBeLessThanOrEqual(refused.y + 1);
    expect(admitted.height / refused.height).toBeCloseTo((14_000 * 2.4 + 100) / 750, -1);
  });

  test("draws the keys in order and in proportion", async () => {
    const page = await open(fortnight());
    const widths = (await bars(page, "busiest")).map(({ width }) => width);
    expect(widths).toHaveLength(4);
    expect(widths[1]! / widths[0]!).toBeCloseTo(0.9, 2);
    expect(widths[2]! / widths[0]!).toBeCloseTo(0.5, 2);
    const bans = (await bars(page, "banned")).map(({ width }) => width);
    expect(bans[1]! / bans[0]!).toBeCloseTo(1 / 28, 2);
  });

  test("draws a key with a full minute on the line of the limit", async () => {
    const page = await open(fortnight());
    const limits = plot(page, "limits");
    const [line] = await boxes(
      limits.locator("[aria-label=rule] line[stroke-width='2'], [stroke-width='2'] line"),
    );
    const [days, minutes] = await Promise.all(
      [0, 1].map((index) =>
        boxes(limits.locator("[aria-label=dot]").nth(index).locator("path, circle")),
      ),
    );
    const middle = ({ x, width }: { x: number; width: number }) => x + width / 2;
    const { x, width } = (await limits.boundingBox())!;
    expect(x + width - middle(line!)).toBeLessThan(30);
    expect(middle(minutes![0]!)).toBeCloseTo(middle(line!), 0);
    expect(middle(minutes![1]!)).toBeLessThan(middle(line!));
    expect(middle(days![0]!)).toBeLessThan(middle(minutes![1]!));
  });

  test("shows the figures of the day under the pointer", async () => {
    const page = await open(fortnight());
    const { x, y, width, height } = (await plot(page, "traffic").boundingBox())!;
    await page.mouse.move(x + width - 40, y + height / 2);
    const tip = plot(page, "traffic").locator("[aria-label=tip]");
    await expect.poll(() => tip.textContent()).toContain("Saturday, November 21, 2026");
    expect(await tip.textContent()).toContain("enterprise: 14,000");
  });

  test("shows names as text, even with HTML in them", async () => {
    const page = await open(fortnight());
    expect(await page.title()).toBe("API usage, 2026-11-08 to 2026-11-21");
    expect(await page.locator("b").count()).toBe(0);
    await page.locator(".banned summary").click();
    expect(await page.locator(".banned tbody th").allTextContents()).toStrictEqual([
      HOSTILE_NAME,
      "Zoo",
    ]);
    const labels = await plot(page, "banned").locator("text").allTextContents();
    expect(labels.some((label) => label.startsWith("</script><b>"))).toBe(true);
  });

  test("has all its figures in tables, even without scripts", async () => {
    const page = await open(fortnight(), { javaScriptEnabled: false });
    const rows = async (section: string) =>
      (await page.locator(`.${section} tbody tr`).all()).length;
    expect(await rows("traffic")).toBe(14);
    expect(await rows("outcomes")).toBe(14);
    const busiest = await page
      .locator(".busiest tbody tr")
      .first()
      .locator("td, th")
      .allTextContents();
    expect(busiest.map((text) => text.trim())).toStrictEqual([
      "Zoo",
      "key_0",
      "enterprise",
      "105,000",
      "0",
    ]);
    const tiles = await page.locator(".tiles dd").allTextContents();
    expect(tiles.map((text) => text.trim().replace(/\D+$/, ""))).toMatchObject([
      "252,100",
      expect.stringContaining("10,500"),
      expect.stringContaining("29"),
      expect.stringContaining("4"),
      expect.stringContaining("2"),
    ]);
    expect(await page.locator("header").textContent()).toContain("2026-11-21 10:00 UTC");
  });

  test("shows the first 20 of many keys and says how many more there are", async () => {
    const page = await open(crowd(3_000));
    for (const name of ["limits", "busiest", "banned"]) {
      expect(await page.locator(`.${name} > .note`).textContent()).toContain(
        "These are the first 20; 2,980 more are left out.",
      );
    }
    expect(await bars(page, "busiest")).toHaveLength(20);
    expect(await page.locator(".tiles").textContent()).toContain("3,000");
  });

  test("says that there is nothing to show", async () => {
    const page = await open(reportOf([{ name: "Idle", plan: "free", admitted: [] }]));
    expect(await page.locator(".none").allTextContents()).toHaveLength(5);
    expect(await page.locator("header").textContent()).toContain("No key has reported anything");
  });

  test.each([1, 366])("shows a range of %i days", async (dayCount) => {
    const admitted = Array.from({ length: dayCount }, () => 100);
    const page = await open(reportOf([{ name: "Zoo", plan: "free", admitted }], dayCount));
    const rects = await boxes(plot(page, "outcomes").locator("[aria-label=rect] rect"));
    const shown = rects.filter(({ width, height }) => width > 0.5 && height > 10);
    expect(shown).toHaveLength(dayCount);
  });

  test.each(["light", "dark"] as const)("is accessible in %s mode", async (colorScheme) => {
    const page = await open(fortnight(), { colorScheme });
    for (const summary of await page.locator("summary").all()) await summary.click();
    expect(await violations(page)).toStrictEqual([]);
    expect(await page.getByRole("img").count()).toBe(PLOTS.length);
    for (const image of await page.getByRole("img").all()) {
      expect(await image.getAttribute("aria-label")).toMatch(/^\w[\w ,]+\.$/);
    }
  });

  test("fits a phone without scrolling sideways, and follows a growing window", async () => {
    const page = await open(fortnight(), PHONE);
    for (const summary of await page.locator("summary").all()) await summary.click();
    await page.screenshot({ path: join(SCREENSHOTS, "phone.png"), fullPage: true });
    const widths = await page.evaluate(() => {
      scrollTo(1_000, 0);
      return [scrollX, document.documentElement.scrollWidth];
    });
    expect(widths).toStrictEqual([0, 360]);
    for (const name of PLOTS) {
      const { x, width } = (await plot(page, name).boundingBox())!;
      expect(x + width).toBeLessThanOrEqual(360);
      expect(width).toBeGreaterThan(280);
    }
    await page.setViewportSize({ width: 1_100, height: 700 });
    await expect
      .poll(async () => (await plot(page, "limits").boundingBox())!.width)
      .toBeGreaterThan(900);
  });
});
