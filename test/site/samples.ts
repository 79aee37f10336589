import { expect, test } from "vitest";
import { clipboard } from "./console.ts";
import { CONTACT, expectText, type ReferencePage, STATUS } from "./reference-page.ts";

/** Defines the tests of the first screen and of the samples. */
export function testSamples(reference: ReferencePage): void {
  test("shows the first call and its response on the first screen, and uses one origin only", async () => {
    const { page, answers } = await reference.open();
    const { headers } = await fetch(reference.origin);
    expect(headers.get("Content-Security-Policy")).toMatch(
      /^default-src 'none'; script-src 'self';/,
    );
    expect(headers.get("Content-Security-Policy")).not.toContain("unsafe");
    expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
    expect(await page.title()).toBe("Store Orders API");
    expect(answers).toStrictEqual([]);
    const state = await page.context().storageState();
    expect(state).toStrictEqual({ cookies: [], origins: [] });

    const visible = page.locator(".intro pre:visible");
    expect(await visible.first().innerText()).toBe(
      `curl -i ${reference.origin}/v1/store/orders \\\n  -H "Authorization: Bearer YOUR_API_KEY"`,
    );
    const answer = await visible.last().boundingBox();
    expect((answer?.y ?? NaN) + (answer?.height ?? NaN)).toBeLessThan(900);
    expect(await visible.last().innerText()).toMatch(/^HTTP\/1.1 200 OK\n[^]*\]$/);
  });

  test("puts the pasted key into a sample that is copied, and shows it only while Show is on", async () => {
    const { page } = await reference.open();
    const key = reference.demoKeys.pro;
    await page.locator("#first-key").fill(` ${key} `);
    await page.locator(".intro").getByText("Python", { exact: true }).click();
    expect(await page.locator("#cancelOrder pre:visible").first().innerText()).toContain("urllib");
    const sample = page.locator(".intro pre:visible").first();
    const copy = page.getByRole("button", { name: "Copy: First call (Python)" });
    const show = page.locator(".intro").getByRole("button", { name: "Show" });
    const shown = async () => new Set(await page.locator("[data-key]").allTextContents());
    const fieldTypes = () =>
      page
        .locator("[data-key-field]")
        .evaluateAll((fields) => fields.map((field) => field.getAttribute("type")));
    for (const [text, type] of [
      ["YOUR_API_KEY", "password"],
      [key, "text"],
      ["YOUR_API_KEY", "password"],
    ] as const) {
      expect(await shown()).toStrictEqual(new Set([text]));
      expect(await fieldTypes()).toStrictEqual([type, type]);
      await copy.click();
      expect(await clipboard(page)).toBe((await sample.innerText()).replace("YOUR_API_KEY", key));
      const main = await page.locator("main").innerText();
      expect(main.includes(key)).toBe(type === "text");
      await show.click();
    }

    // The console also has the pasted key, and lists the orders with this key.
    await page.locator(".intro").getByRole("button", { name: "List orders" }).click();
    await expectText(page, STATUS, /^200/);
    expect(await page.locator(STATUS).isVisible()).toBe(true);
    await page.locator("#key").fill("");
    expect(await shown()).toStrictEqual(new Set(["YOUR_API_KEY"]));
  });

  test("has hints for a local service only where the service is local, and says whom to ask", async () => {
    for (const [origin, isLocal] of [
      [reference.origin, true],
      ["https://orders.example", false],
    ] as const) {
      const { page } = await reference.open({ origin });
      const text = await page.locator("main").innerText();
      expect(text.includes("npm start")).toBe(isLocal);
      expect(text.includes("Trigger a ban")).toBe(isLocal);
      expect(text).toContain(`${origin}/v1`);
      const hrefs = await page
        .getByRole("link", { name: CONTACT })
        .evaluateAll((links) => links.map((link) => link.getAttribute("href")));
      expect(hrefs).toStrictEqual([`mailto:${CONTACT}`, `mailto:${CONTACT}`]);
    }
    const { info } = await (await fetch(`${reference.origin}/openapi.json`)).json();
    expect(info.contact).toStrictEqual({ email: CONTACT });
  });

  test("scrolls to an error and its explanation if the address ends with the error's code", async () => {
    const { page } = await reference.open({ path: "/#order_already_shipped" });
    const row = page.locator("#order_already_shipped");
    expect(await row.innerText()).toContain("has already shipped");
    const explanation = page.getByText("The order has shipped; it is unchanged.");
    for (const target of [row, explanation]) {
      await expect.poll(async () => isInWindow(await target.boundingBox())).toBe(true);
    }
  });

  test("shows its text, and its tabs work, without JavaScript", async () => {
    const { page } = await reference.open({ javaScriptEnabled: false });
    await page.locator(".intro").getByText("Go", { exact: true }).click();
    expect(await page.locator(".intro pre:visible").first().innerText()).toContain("package main");
    await page.locator("#cancelOrder label", { hasText: "409" }).click();
    expect(await page.locator("#cancelOrder pre:visible").last().innerText()).toMatch(
      /^HTTP\/1.1 409 Conflict[^]*"order_already_shipped"/,
    );
    expect(await page.locator("#first-key").isVisible()).toBe(false);
    expect(await page.getByText("The console needs JavaScript").isVisible()).toBe(true);
  });
}

/** Returns whether a box is below the page's header and inside a window that is 900 pixels high. */
function isInWindow(box: { readonly y: number; readonly height: number } | null): boolean {
  return box !== null && box.y > 52 && box.y + box.height < 900;
}
