import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { expectText, listOrders, type ReferencePage, STATUS } from "./reference-page.ts";

const MINUTE = '[data-window="minute"] .figure';
const DAY = '[data-window="day"] .figure';

/** Defines the tests of how the console shows requests and responses. */
export function testConsole(reference: ReferencePage): void {
  test("lists the orders with every digit, and shows what is left of the limits", async () => {
    const { page } = await reference.open();
    await listOrders(page, reference.demoKeys.business);
    expect(await page.locator(STATUS).innerText()).toBe("200 OK");
    expect(await page.locator(".status-line").innerText()).toMatch(/\d+ ms$/);
    const ids = await page.locator("#orders tbody td:first-child").allTextContents();
    expect(ids[0]).toBe("-9223372036854775808");
    expect(ids.at(-1)).toBe("9223372036854775807");
    expect(await page.locator("#body").textContent()).toContain('"id":9223372036854775807,');
    expect(await page.locator(MINUTE).innerText()).toBe("999 of 1,000");
    expect(await page.locator(DAY).innerText()).toBe("99,999 of 100,000");
    expect(await page.locator("#headers-sent").textContent()).toMatch(/X-RateLimit-Remaining999/);
    await page.locator("#list").getByRole("button", { name: "List orders" }).click();
    await expectText(page, MINUTE, /^998 of/);
    expect(await page.evaluate(() => ({ ...localStorage, ...sessionStorage }))).toStrictEqual({});

    // The whole width of the table of orders is visible, and the body of the response is beside the
    // table.
    const scroll = page.locator("#orders .scroll");
    expect(await scroll.evaluate((box) => box.scrollWidth - box.clientWidth)).toBe(0);
    const [table, raw] = [await scroll.boundingBox(), await page.locator("#body").boundingBox()];
    expect(raw?.x).toBeGreaterThan((table?.x ?? 0) + (table?.width ?? 0));

    await page.getByRole("button", { name: "Copy body" }).click();
    expect(await clipboard(page)).toBe(await page.locator("#body").textContent());
    await page.getByRole("button", { name: "Copy as curl" }).click();
    expect(await clipboard(page)).toBe(
      `curl -i -H 'Authorization: Bearer ${reference.demoKeys.business}' '${reference.origin}/v1/store/orders'`,
    );
  });

  test("cancels an order after a confirmation, and leaves its row with a note", async () => {
    const { page, answers } = await reference.open();
    await listOrders(page, reference.demoKeys.business);
    const confirm = () =>
      page.getByRole("dialog").getByRole("button", { name: "Cancel order" }).click();
    await page.getByRole("button", { name: "Cancel order 1001" }).click();
    await page.getByRole("button", { name: "Keep it" }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(answers).toHaveLength(1);

    await page.getByRole("button", { name: "Cancel order 1001" }).click();
    await confirm();
    await expectText(page, STATUS, /^204/);
    await expectText(page, "tr:has(> :text-is('1001'))", /Cancelled$/);
    await page.getByRole("button", { name: "Cancel order 1004" }).click();
    await confirm();
    await expectText(page, "tr:has(> :text-is('1004'))", /Has shipped$/);
    for (const [id, answer] of [
      ["1001", /order_not_found/],
      ["9223372036854775807", /^$/],
      ["not/an id", /int64/],
    ] as const) {
      await page.getByRole("textbox", { name: "orderId" }).fill(id);
      await page.getByRole("button", { name: "Cancel order", exact: true }).click();
      await confirm();
      await expectText(page, ".status-line", new RegExp(`DELETE .*${encodeURIComponent(id)}`));
      await expectText(page, "#body", answer);
    }
    await expectText(page, "tr:has(> :text-is('9223372036854775807'))", /Cancelled$/);

    // An empty order id hides the earlier response and the table of orders.
    await page.getByRole("textbox", { name: "orderId" }).fill(" ");
    await page.getByRole("button", { name: "Cancel order", exact: true }).click();
    await expectText(page, "#summary", /^Which order/);
    expect(await page.locator("#answer").isVisible()).toBe(false);
    expect(await page.locator("#orders").isVisible()).toBe(false);
    expect(answers).toHaveLength(6);

    await listOrders(page, reference.demoKeys.business);
    await expectText(page, "#orders-note", /^8 orders/);
    const left = await page.locator("#orders tbody td:first-child").allTextContents();
    expect(left).toContain("1004");
    expect(left).not.toContain("1001");
    expect(left).not.toContain("9223372036854775807");
  });

  test("says that no response arrived while the browser is offline", async () => {
    const { page, complaints } = await reference.open();
    await page.context().setOffline(true);
    await page.locator("#list").getByRole("button", { name: "List orders" }).click();
    await expectText(page, "#summary", /No answer came/);
    expect(complaints).toStrictEqual([]);
  });
}

export function clipboard(page: Page): Promise<string> {
  return page.evaluate(() => navigator.clipboard.readText());
}
