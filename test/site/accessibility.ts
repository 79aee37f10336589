import { expect, test } from "vitest";
import { expectText, listOrders, type ReferencePage } from "./reference-page.ts";
import { violations } from "./violations.ts";

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };

/** Tests that everyone can use the page. */
export function testAccessibility(reference: ReferencePage): void {
  test("can be used by keyboard alone, with the focus always visible", async () => {
    const { page } = await reference.open();
    const press = (key: string) => page.keyboard.press(key);
    const focused = () =>
      page.evaluate(() => {
        const { outlineStyle, outlineWidth } = getComputedStyle(
          document.activeElement ?? document.body,
        );
        const { id, textContent } = document.activeElement ?? document.body;
        return {
          name: id || (textContent ?? "").trim(),
          outline: `${outlineWidth} ${outlineStyle}`,
        };
      });
    await press("Tab");
    expect((await focused()).name).toBe("skip");
    await press("Enter");
    expect(await focused()).toStrictEqual({ name: "key", outline: "3px solid" });
    await page.keyboard.type(reference.demoKeys.pro);
    await press("Enter");
    await expectText(page, ".status b", /^200/);
    while ((await focused()).name !== "order-id") await press("Tab");
    await page.keyboard.type("1002");
    await press("Enter");
    await page.getByRole("dialog").waitFor();
    expect(await focused()).toStrictEqual({ name: "Keep it", outline: "3px solid" });
    await press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect((await focused()).name).toBe("order-id");
    await press("Enter");
    await page.getByRole("dialog").waitFor();
    await press("Tab");
    await press("Enter");
    await expectText(page, ".status b", /^204/);
    for (let stops = 0; !(await focused()).name.startsWith("GET"); stops++) {
      expect(stops).toBeLessThan(40);
      await press("Tab");
    }
    await press("Enter");
    await page.locator("#viewer .opblock.is-open").waitFor();
  });

  test.each(["light", "dark"] as const)("is accessible in %s mode", async (colorScheme) => {
    const { page } = await reference.open({ colorScheme, reducedMotion: "reduce" });
    await listOrders(page, reference.demoKeys.pro);
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    expect(background).toBe(colorScheme === "dark" ? "rgb(18, 21, 27)" : "rgb(246, 247, 249)");
    expect(await violations(page)).toStrictEqual([]);
  });

  test("fits a phone without scrolling sideways", async () => {
    const { page } = await reference.open(PHONE);
    await listOrders(page, reference.demoKeys.pro);
    for (const summary of await page.locator(".opblock-summary-control").all())
      await summary.click();
    await page.locator(".opblock-body .responses-table").nth(1).waitFor();
    const widths = await page.evaluate(() => {
      scrollTo(1_000, 0);
      return [scrollX, document.documentElement.scrollWidth];
    });
    expect(widths).toStrictEqual([0, 360]);
    const cells = await page
      .locator("#viewer tbody > tr > :is(.response-col_description, .parameters-col_description)")
      .evaluateAll((found) => found.map((cell) => cell.clientWidth));
    expect(Math.min(...cells)).toBeGreaterThan(150);
    // Elements that reach beyond the right edge would be cut off.
    const cut = await page.evaluate(() =>
      [...document.querySelectorAll("#try *, #limits *, #viewer *")]
        .filter((element) => {
          const { right, width } = element.getBoundingClientRect();
          return width > 0 && right > innerWidth && element.closest(".scroll, svg, pre") === null;
        })
        .map((element) => `${element.tagName}.${element.className}`),
    );
    expect(cut).toStrictEqual([]);
  });
}
