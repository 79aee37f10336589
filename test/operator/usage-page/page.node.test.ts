import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { violations } from "../../site/violations.ts";
import { describeUsagePage } from "./open-page.ts";
import { type Box, coloursOf, difference } from "./pixels.ts";
import { crowd, fortnight, HOSTILE_NAME, idOf, reportOf } from "./report.ts";

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };
const PLOTS = ["traffic", "refused", "bans", "limits", "busiest", "banned"];
const KEY_PLOTS = ["admitted", "refused", "bans", "minute", "day"];

/** The folder of screenshots for people. No test compares them, because fonts differ by machine. */
const SCREENSHOTS = join(import.meta.dirname, "..", "..", "..", "dist", "screenshots");

/** Some colours of the page in light and dark mode. */
const COLOURS = {
  light: {
    enterprise: "rgb(63, 20, 102)",
    refused: "rgb(201, 70, 61)",
    banned: "rgb(125, 26, 94)",
    panel: "rgb(255, 255, 255)",
  },
  dark: {
    enterprise: "rgb(236, 214, 255)",
    refused: "rgb(255, 143, 134)",
    banned: "rgb(244, 154, 214)",
    panel: "rgb(26, 31, 40)",
  },
};

/** Only the colours differ between the modes, so in dark mode only the contrast is checked. */
const RULES = { light: undefined, dark: ["color-contrast"] };

const plot = (page: Page, name: string) => page.locator(`[data-plot=${name}] svg.plot`);

/** Returns the boxes of the elements `marks`, relative to the whole page, in document order. */
function boxes(marks: Locator): Promise<Box[]> {
  return marks.evaluateAll((found) =>
    found.map((mark) => {
      const { x, y, width, height } = mark.getBoundingClientRect();
      return { x: x + scrollX, y: y + scrollY, width, height };
    }),
  );
}

const box = async (mark: Locator) => (await boxes(mark))[0]!;
const rects = (page: Page, name: string) =>
  boxes(plot(page, name).locator("[aria-label=rect] rect"));
const bars = (page: Page, name: string) => boxes(plot(page, name).locator("[aria-label=bar] rect"));
const lines = (page: Page, name: string, label: string) =>
  boxes(plot(page, name).locator(`[aria-description='${label}'] line`));

const cells = async (row: Locator) =>
  (await row.locator("td, th").allTextContents()).map((text) => text.trim());

async function expectNoSidewaysScroll(page: Page, plots: readonly string[], width: number) {
  const widths = await page.evaluate(() => {
    scrollTo(1_000, 0);
    return [scrollX, document.documentElement.scrollWidth];
  });
  expect(widths).toStrictEqual([0, width]);
  for (const name of plots) {
    const drawn = await box(plot(page, name));
    expect(drawn.x + drawn.width).toBeLessThanOrEqual(width);
    expect(drawn.width).toBeGreaterThan(width - 80);
  }
}

async function openTables(page: Page): Promise<void> {
  await page.locator("details").evaluateAll((tables) => {
    for (const table of tables) (table as HTMLDetailsElement).open = true;
  });
}

describeUsagePage("the page of a usage report", (open) => {
  beforeAll(() => mkdir(SCREENSHOTS, { recursive: true }));

  describe("of all keys", () => {
    // The tests share one page, because opening a page is slow. No test depends on another test.
    let page: Page;
    let scratch: Page;
    beforeAll(async () => {
      page = await open(fortnight());
      scratch = await page.context().newPage();
      // Brings the page to the front, because Chromium does not scroll pages in the background.
      await page.bringToFront();
    });

    test.each(["light", "dark"] as const)(
      "shows every plot in %s mode, and today hatched",
      async (colorScheme) => {
        await page.emulateMedia({ colorScheme });
        const path = join(SCREENSHOTS, `${colorScheme}.png`);
        const png = await page.screenshot({ path, fullPage: true });
        const { enterprise, refused, banned, panel } = COLOURS[colorScheme];
        const colourOf = { traffic: enterprise, refused, bans: banned, banned };
        for (const [name, colour] of Object.entries(colourOf)) {
          const last = name === "banned" ? [] : [(await rects(page, name)).at(-1)!];
          const parts = [await box(plot(page, name)), ...last];
          const [whole, hatched] = await coloursOf(scratch, png, parts);
          expect(whole!.get(panel)).toBeLessThan(0.98);
          expect(whole!.get(colour)).toBeGreaterThan(0.05);
          if (hatched !== undefined) expect(hatched.get(panel)).toBeGreaterThan(0.1);
        }
        await page.emulateMedia({ colorScheme: null });
      },
    );

    test("draws the days side by side and in proportion", async () => {
      const enterprise = await boxes(
        plot(page, "traffic").locator("rect[fill='var(--enterprise)']"),
      );
      expect(enterprise).toHaveLength(14);
      const lefts = enterprise.map(({ x }) => x);
      expect(lefts).toStrictEqual(lefts.toSorted((one, other) => one - other));
      expect(enterprise[13]!.height / enterprise[6]!.height).toBeCloseTo(2, 1);
    });

    test("draws refused requests and bans on separate scales", async () => {
      const [refused, bans] = await Promise.all([rects(page, "refused"), rects(page, "bans")]);
      for (const [name, days] of [
        ["refused", refused],
        ["bans", bans],
      ] as const) {
        const { height } = await box(plot(page, name));
        expect(days[13]!.height / height).toBeGreaterThan(0.5);
      }
      expect(bans[13]!.height / bans[12]!.height).toBeCloseTo(3 / 2, 1);
      expect(bans[13]!.x).toBeCloseTo(refused[13]!.x, 0);
    });

    test("hatches only the bars of today, because today is not over yet", async () => {
      for (const name of ["traffic", "refused", "bans"]) {
        const hatched = await boxes(plot(page, name).locator("[aria-description=hatch] rect"));
        expect(hatched.map(({ x }) => x)).toStrictEqual([(await rects(page, name)).at(-1)!.x]);
      }
      expect(await page.locator(".traffic .legend").textContent()).toContain("reports to come");
    });

    test("draws the keys in order and in proportion", async () => {
      const widths = (await bars(page, "busiest")).map(({ width }) => width);
      expect(widths).toHaveLength(4);
      expect(widths[1]! / widths[0]!).toBeCloseTo(0.9, 2);
      expect(widths[2]! / widths[0]!).toBeCloseTo(0.5, 2);
      const bans = (await bars(page, "banned")).map(({ width }) => width);
      expect(bans[1]! / bans[0]!).toBeCloseTo(1 / 28, 2);
    });

    test("shows the ids of keys that have the same name, and counts in full", async () => {
      const texts = await plot(page, "busiest").locator("text").allTextContents();
      expect(texts.filter((text) => text === "Zoo")).toHaveLength(2);
      expect(texts.filter((text) => text.startsWith("key_"))).toStrictEqual([idOf(0), idOf(3)]);
      expect(texts).toContain("105,000");
    });

    test("draws one line at the limit and one line at 80 % of the limit", async () => {
      const limits = plot(page, "limits");
      const middle = ({ x, width }: Box) => x + width / 2;
      const dots = await boxes(limits.locator("[aria-label=dot]").first().locator("circle, path"));
      const { x, width } = await box(limits);
      const [limit, near] = await Promise.all(
        ["limit", "near limit"].map(async (label) =>
          middle((await lines(page, "limits", label))[0]!),
        ),
      );
      expect(x + width - limit!).toBeLessThan(30);
      // The first key's minute window is full. The second key's minute window is at 80 %.
      expect(middle(dots[0]!)).toBeCloseTo(limit!, 0);
      expect(middle(dots[1]!)).toBeCloseTo(near!, 0);
      expect(await page.locator(".limits .legend").textContent()).toContain("near a limit, 80 %");
    });

    test("shows the figures of the day under the pointer", async () => {
      await plot(page, "traffic").scrollIntoViewIfNeeded();
      const { x, y, width, height } = (await plot(page, "traffic").boundingBox())!;
      await page.mouse.move(x + width - 40, y + height / 2);
      const tip = plot(page, "traffic").locator("[aria-label=tip]");
      await expect.poll(() => tip.textContent()).toContain("Saturday, November 21, 2026");
      expect(await tip.textContent()).toContain("enterprise: 14,000");
      expect(await tip.textContent()).toContain("reports to come");
    });

    test("shows the names of keys as text, even if they contain HTML", async () => {
      expect(await page.title()).toBe("API usage, 2026-11-08 to 2026-11-21");
      expect(await page.locator("b").count()).toBe(0);
      expect(await page.locator(".banned tbody th").allTextContents()).toStrictEqual([
        HOSTILE_NAME,
        "Zoo",
      ]);
      const labels = await plot(page, "banned").locator("text").allTextContents();
      expect(labels.some((label) => label.startsWith("</script><b>"))).toBe(true);
    });

    test("has a distinguishable colour for each plan with every colour vision deficiency", async () => {
      const session = await page.context().newCDPSession(page);
      const legend = page.locator(".traffic .legend");
      const [origin, swatches] = [await box(legend), await boxes(legend.locator(".swatch.bar"))];
      const pixels = swatches.map(({ x, y }) => ({
        x: Math.round(x - origin.x) + 5,
        y: Math.round(y - origin.y) + 5,
        width: 2,
        height: 2,
      }));
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        for (const type of ["deuteranopia", "protanopia", "tritanopia", "achromatopsia"] as const) {
          await session.send("Emulation.setEmulatedVisionDeficiency", { type });
          const seen = await coloursOf(scratch, await legend.screenshot(), pixels);
          const colours = seen.map((found) => [...found.keys()][0]!);
          const differences = colours.flatMap((one, index) =>
            colours.slice(index + 1).map((other) => difference(one, other)),
          );
          expect(differences).toHaveLength(6);
          expect(Math.min(...differences), `${type}, ${colorScheme}`).toBeGreaterThan(7);
        }
      }
      await session.send("Emulation.setEmulatedVisionDeficiency", { type: "none" });
      await page.emulateMedia({ colorScheme: null });
    });

    test("prints with light colours, in one column, and without tables that are closed", async () => {
      await page.emulateMedia({ colorScheme: "dark", media: "print" });
      expect(
        await page.locator(".limits").evaluate((panel) => getComputedStyle(panel).backgroundColor),
      ).toBe(COLOURS.light.panel);
      expect(await page.locator("details:not([open])").first().isVisible()).toBe(false);
      const printed = page.evaluate(
        () =>
          new Promise((resolve) => {
            addEventListener("beforeprint", () =>
              resolve(
                [...document.querySelectorAll("svg.plot")].map((svg) => svg.getAttribute("width")),
              ),
            );
          }),
      );
      await page.pdf();
      expect(await printed).toStrictEqual(PLOTS.map(() => "640"));
      await page.emulateMedia({ colorScheme: null, media: null });
      await expect.poll(async () => (await box(plot(page, "limits"))).width).toBeGreaterThan(900);
    });

    test("opens and scrolls its tables from the keyboard", async () => {
      const details = page.locator(".refused details");
      await details.locator("summary").focus();
      const isOpen = () => details.evaluate((found) => (found as HTMLDetailsElement).open);
      const before = await isOpen();
      await page.keyboard.press("Enter");
      expect(await isOpen()).toBe(!before);
      if (before) await page.keyboard.press("Enter");
      await page.keyboard.press("Tab");
      const focused = page.locator(":focus");
      expect(await focused.getAttribute("aria-label")).toBe("Requests refused and bans by day");
      expect(await focused.evaluate((found) => getComputedStyle(found).outlineStyle)).toBe("solid");
      await page.keyboard.press("End");
      await expect.poll(() => focused.evaluate((found) => found.scrollTop)).toBeGreaterThan(0);
      await page.keyboard.press("Tab");
      expect(await page.locator(":focus").textContent()).toBe("The figures as a table");
    });

    test.each(["light", "dark"] as const)("is accessible in %s mode", async (colorScheme) => {
      await page.emulateMedia({ colorScheme });
      await openTables(page);
      expect(await violations(page, RULES[colorScheme])).toStrictEqual([]);
      expect(await page.getByRole("img").count()).toBe(PLOTS.length);
      for (const image of await page.getByRole("img").all()) {
        expect(await image.getAttribute("aria-label")).toMatch(/^\w[\w ,]+\.$/);
      }
      await page.emulateMedia({ colorScheme: null });
    });
  });

  test("has the figures of all plots in tables, even without JavaScript", async () => {
    const page = await open(fortnight(), { javaScriptEnabled: false });
    const rows = (section: string) => page.locator(`.${section} tbody tr`);
    expect(await rows("traffic").count()).toBe(14);
    expect(await cells(rows("refused").last())).toStrictEqual(["2026-11-21", "750", "2.2 %", "3"]);
    expect(await cells(rows("busiest").first())).toStrictEqual([
      "Zoo",
      idOf(0),
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

  test("replaces the plots by a sentence if there are no figures", async () => {
    const report = reportOf([{ name: "Idle", plan: "free", admitted: [] }]);
    const page = await open(report, { javaScriptEnabled: false });
    expect(await page.locator(".none").allTextContents()).toHaveLength(5);
    expect(await page.locator("header").textContent()).toContain("Nothing has been reported");
  });

  test.each([1, 366])("shows a range of %i days", async (dayCount) => {
    const admitted = Array.from({ length: dayCount }, () => 100);
    const page = await open(reportOf([{ name: "Zoo", plan: "free", admitted }], dayCount));
    const days = await boxes(plot(page, "traffic").locator("rect[fill='var(--free)']"));
    const shown = days.filter(({ width, height }) => width > 0.5 && height > 10);
    expect(shown).toHaveLength(dayCount);
  });

  test("fits a phone without scrolling sideways, and grows with the window", async () => {
    const page = await open(fortnight(), PHONE);
    await openTables(page);
    await page.screenshot({ path: join(SCREENSHOTS, "phone.png"), fullPage: true });
    await expectNoSidewaysScroll(page, PLOTS, 360);
    await page.setViewportSize({ width: 1_100, height: 700 });
    await expect.poll(async () => (await box(plot(page, "limits"))).width).toBeGreaterThan(900);
  });

  describe("of one key", () => {
    let page: Page;
    beforeAll(async () => {
      const used = { refused: 40, bans: 1, minute: 1, day: 0.25, raisedOn: 10 };
      const admitted = Array.from({ length: 14 }, () => 2_500);
      const report = reportOf([{ name: HOSTILE_NAME, plan: "pro", admitted, ...used }]);
      page = await open(report, { keyId: idOf(0) });
      await page.screenshot({ path: join(SCREENSHOTS, "key.png"), fullPage: true });
    });

    test("names the key, its id, plan and limits", async () => {
      expect(await page.title()).toBe(`API usage of ${HOSTILE_NAME}, 2026-11-08 to 2026-11-21`);
      expect(await page.locator("h1").textContent()).toBe(`API usage of ${HOSTILE_NAME}`);
      const subtitle = (await page.locator(".key").textContent())!.replace(/\s+/g, " ").trim();
      expect(subtitle).toBe(`${idOf(0)}, pro plan: 300 requests a minute, 10,000 a day.`);
      expect(await page.locator("b").count()).toBe(0);
      const tiles = (await page.locator(".tiles dd").allTextContents()).map((text) => text.trim());
      expect(tiles).toStrictEqual([
        "35,000requests",
        "5601.6 % of all, 840 strikes",
        "14that began",
        "100 %300 of 300, 2026-11-08",
        "25 %2,500 of 10,000, 2026-11-08",
      ]);
    });

    test("draws a line at the limit of each day, and a line at 80 % of the limit", async () => {
      const minutes = await rects(page, "minute");
      const limit = await lines(page, "minute", "limit");
      const near = await lines(page, "minute", "near limit");
      const base = minutes[0]!.y + minutes[0]!.height;
      for (const [day, { x, y, height }] of minutes.slice(0, 14).entries()) {
        expect(Math.abs(limit[day]!.y - y)).toBeLessThan(2);
        expect(Math.abs(limit[day]!.x - x)).toBeLessThan(2);
        expect((base - near[day]!.y) / height).toBeCloseTo(0.8, 1);
      }
      // The key's limits double after ten days (see `raisedOn`).
      expect((base - limit[10]!.y) / (base - limit[9]!.y)).toBeCloseTo(2, 1);
      const days = await rects(page, "day");
      const [dayLimit] = await lines(page, "day", "limit");
      expect(days[0]!.height / (days[0]!.y + days[0]!.height - dayLimit!.y)).toBeCloseTo(0.25, 2);
      expect(await page.locator(".minute .legend").textContent()).toContain("the limit, now 300");
    });

    test("has the figures of its plots in tables", async () => {
      const row = (section: string) => cells(page.locator(`.${section} tbody tr`).last());
      expect(await row("admitted")).toStrictEqual(["2026-11-21", "2,500"]);
      expect(await row("refused")).toStrictEqual(["2026-11-21", "40", "1.6 %", "60", "1"]);
      expect(await row("minute")).toStrictEqual(["2026-11-21", "600", "600", "100 %"]);
      expect(await row("day")).toStrictEqual(["2026-11-21", "5,000", "20,000", "25 %"]);
    });

    test("is accessible, and fits a phone", async () => {
      await openTables(page);
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await violations(page, RULES[colorScheme])).toStrictEqual([]);
      }
      expect(await page.getByRole("img").count()).toBe(KEY_PLOTS.length);
      await page.setViewportSize({ width: 390, height: 740 });
      await expect.poll(async () => (await box(plot(page, "day"))).width).toBeLessThan(390);
      await expectNoSidewaysScroll(page, KEY_PLOTS, 390);
    });
  });
});
