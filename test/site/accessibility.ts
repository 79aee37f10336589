import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import { expectText, listOrders, type ReferencePage, STATUS } from "./reference-page.ts";
import { violations } from "./violations.ts";

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

/** The widths of a phone, a tablet, a laptop and a large display, in CSS pixels. */
const WIDTHS = [390, 768, 1280, 1920];

/** Defines the tests of accessibility: keyboard, contrast and screens of every width. */
export function testAccessibility(reference: ReferencePage): void {
  test("can be used by keyboard alone, with the focus always visible", async () => {
    const { page } = await reference.open();
    const press = (key: string) => page.keyboard.press(key);
    const focused = () => page.evaluate(describeFocus);
    const tabTo = async (name: string) => {
      for (let stops = 0; (await focused()).name !== name; stops++) {
        expect(stops).toBeLessThan(30);
        await press("Tab");
        expect((await focused()).hasOutline).toBe(true);
      }
    };
    await press("Tab");
    expect((await focused()).name).toBe("Skip to the content");
    await press("Enter");
    await tabTo("first-key");
    await page.keyboard.type(reference.demoKeys.pro);
    await tabTo("first-language");
    await press("ArrowRight");
    expect(await page.locator(".intro pre:visible").first().innerText()).toContain("createClient");

    // A reader who followed a link to the console starts in the field `#key`.
    await page.locator("#key").focus();
    await press("Enter");
    await expectText(page, STATUS, /^200/);
    await tabTo("order-id");
    await page.keyboard.type("1002");
    await press("Enter");
    await page.getByRole("dialog").waitFor();
    expect(await focused()).toStrictEqual({ name: "Keep it", hasOutline: true });
    await press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect((await focused()).name).toBe("order-id");
    await press("Enter");
    await page.getByRole("dialog").waitFor();
    await press("Tab");
    await press("Enter");
    await expectText(page, STATUS, /^204/);
  });

  test("is accessible in light and dark mode, with each answer on the screen", async () => {
    const { page } = await reference.open({ colorScheme: "light" });
    await listOrders(page, reference.demoKeys.pro);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      expect(ground).toBe(colorScheme === "dark" ? "rgb(15, 18, 24)" : "rgb(255, 255, 255)");
      // Only the colours differ between light mode and dark mode, so in dark mode only the contrast
      // is checked.
      const rules = colorScheme === "dark" ? ["color-contrast"] : undefined;
      expect(await violations(page, rules)).toStrictEqual([]);
    }
  });

  test("shows every link of the navigation at every width, and no underline through a code", async () => {
    const { page } = await reference.open();
    const links = await page.locator(".top nav a").all();
    expect(links).toHaveLength(10);
    await atEveryWidth(page, async () => {
      for (const link of links) expect(await isClear(link)).toBe(true);
    });
    const codes = page.locator("a:has(code)");
    expect(await codes.count()).toBeGreaterThan(9);
    const lines = await codes.evaluateAll((found) =>
      found.map((link) => getComputedStyle(link).textDecorationLine),
    );
    expect(new Set(lines)).toStrictEqual(new Set(["none"]));
  });

  test("fits a phone, and brings the answer into view", async () => {
    const { page } = await reference.open(PHONE);
    const code = await page.locator(".intro pre:visible").first().boundingBox();
    expect((code?.y ?? NaN) + (code?.height ?? NaN)).toBeLessThan(844);
    await page.locator("#key").fill(reference.demoKeys.pro);
    await page.locator("#list").getByRole("button", { name: "List orders" }).click();
    await page.locator(STATUS).waitFor();
    await expect.poll(() => isClear(page.locator(STATUS)), { timeout: 5_000 }).toBe(true);
    expect(await isClear(page.locator("#orders tbody td").first())).toBe(true);
    expect(await isClear(page.locator("#order-id"))).toBe(true);
    await page.locator("#listOrders label", { hasText: "Go" }).click();
    await page.locator("#cancelOrder label", { hasText: "503" }).click();
    const widths = await page.evaluate(() => {
      scrollTo(1_000, 0);
      return [scrollX, document.documentElement.scrollWidth];
    });
    expect(widths).toStrictEqual([0, 390]);
    expect(await cutElements(page)).toStrictEqual([]);
  });
}

/** Describes the focused element. Playwright runs this function in the page. */
function describeFocus(): { name: string; hasOutline: boolean } {
  const active = document.activeElement ?? document.body;
  // The outline of a radio button is on its tab, because the radio button is invisible.
  const shown = active instanceof HTMLInputElement ? (active.closest(".tab") ?? active) : active;
  const { outlineStyle, outlineWidth } = getComputedStyle(shown);
  return {
    name: active.id || active.getAttribute("name") || (active.textContent ?? "").trim(),
    hasOutline: `${outlineWidth} ${outlineStyle}` === "3px solid",
  };
}

/** Runs `check` with the page at each width. */
export async function atEveryWidth(page: Page, check: () => Promise<void>): Promise<void> {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    await check();
  }
}

/** Returns whether an element is in the window and nothing covers its ends. */
function isClear(element: Locator): Promise<boolean> {
  return element.evaluate((target) => {
    const { left, right, top, height } = target.getBoundingClientRect();
    return [left + 1, right - 1].every((x) => {
      const found = document.elementFromPoint(x, top + height / 2);
      return found !== null && (target.contains(found) || found.contains(target));
    });
  });
}

/**
 * Lists the elements that extend beyond the right edge of the window, except inside SVG and `pre`.
 */
function cutElements(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    [...document.querySelectorAll("main *")]
      .filter((element) => {
        const { right, width } = element.getBoundingClientRect();
        return width > 0 && right > innerWidth && element.closest("svg, pre") === null;
      })
      .map((element) => `${element.tagName}.${element.className}`),
  );
}
