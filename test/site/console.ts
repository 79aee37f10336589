import { expect, test } from "vitest";
import { expectText, listOrders, type ReferencePage } from "./reference-page.ts";

const MINUTE = '[data-window="minute"] .figure';
const DAY = '[data-window="day"] .figure';

/** Tests how the page shows requests and answers. */
export function testConsole(reference: ReferencePage): void {
  test("loads from its own origin only, under a strict content security policy", async () => {
    const { page, answers } = await reference.open();
    const { headers } = await fetch(reference.origin);
    expect(headers.get("Content-Security-Policy")).toMatch(
      /^default-src 'none'; script-src 'self';/,
    );
    expect(headers.get("Content-Security-Policy")).not.toContain("unsafe");
    expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
    expect(answers).toStrictEqual([]);
    expect(await page.title()).toBe("Store Orders API");
    expect(await page.locator("#viewer .opblock").count()).toBe(2);
    const state = await page.context().storageState();
    expect(state).toStrictEqual({ cookies: [], origins: [] });
  });

  test("lists the orders with every digit, and shows what is left of the limits", async () => {
    const { page } = await reference.open();
    await listOrders(page, reference.demoKeys.business);
    expect(await page.locator(".status b").innerText()).toBe("200 OK");
    const ids = await page.locator("#orders tbody td:first-child").allTextContents();
    expect(ids[0]).toBe("-9223372036854775808");
    expect(ids.at(-1)).toBe("9223372036854775807");
    expect(await page.locator("#body").textContent()).toContain('"id":9223372036854775807,');
    expect(await page.locator(MINUTE).innerText()).toBe("999 of 1,000");
    expect(await page.locator(DAY).innerText()).toBe("99,999 of 100,000");
    expect(await page.locator("#headers").textContent()).toMatch(/X-RateLimit-Remaining999/);
    await page.getByRole("button", { name: "List orders" }).click();
    await expectText(page, MINUTE, /^998 of/);
    expect(await page.evaluate(() => ({ ...localStorage, ...sessionStorage }))).toStrictEqual({});
  });

  test("cancels an order after a confirmation, but not a shipped one", async () => {
    const { page, answers } = await reference.open();
    await listOrders(page, reference.demoKeys.business);
    await page.getByRole("button", { name: "Cancel order 1001" }).click();
    await page.getByRole("button", { name: "Keep it" }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(answers).toHaveLength(1);

    await page.getByRole("button", { name: "Cancel order 1001" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel order" }).click();
    await expectText(page, ".status b", /^204/);
    for (const [id, answer] of [
      ["1001", /^404/],
      ["1004", /^409/],
      ["9223372036854775807", /^204/],
      ["not/an id", /^404/],
    ] as const) {
      await page.getByRole("textbox", { name: "orderId" }).fill(id);
      await page.getByRole("button", { name: "Cancel order", exact: true }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Cancel order" }).click();
      await expectText(page, ".status", answer);
      await page.getByRole("button", { name: "List orders" }).click();
      await expectText(page, ".status b", /^200/);
    }
    const left = await page.locator("#orders tbody td:first-child").allTextContents();
    expect(left).toContain("1004");
    expect(left).not.toContain("1001");
    expect(left).not.toContain("9223372036854775807");
  });

  test("asks for the order id if the field is empty", async () => {
    const { page, answers } = await reference.open();
    await page.getByRole("button", { name: "Cancel order" }).click();
    await expectText(page, "#summary", /Which order/);
    expect(answers).toStrictEqual([]);
  });

  test("says when no answer comes", async () => {
    const { page, complaints } = await reference.open();
    await page.context().setOffline(true);
    await page.getByRole("button", { name: "List orders" }).click();
    await expectText(page, "#summary", /No answer came/);
    expect(complaints).toStrictEqual([]);
  });
}
