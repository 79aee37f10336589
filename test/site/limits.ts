import { expect, test } from "vitest";
import { expectText, listOrders, type ReferencePage } from "./reference-page.ts";

const MINUTE = '[data-window="minute"] .figure';
const DAY = '[data-window="day"] .figure';

/** Tests how the page shows limits, refusals and bans. */
export function testLimits(reference: ReferencePage): void {
  test.each([
    ["no key", "", /No API key was sent/],
    ["an invented key", "sord_invented", /not an API key of this service/],
  ])("shows a 401 for %s, and whose budget it uses", async (_, key, sentence) => {
    const { page } = await reference.open();
    await listOrders(page, key);
    expect(await page.locator(".status b").innerText()).toBe("401 Unauthorized");
    expect(await page.getByRole("status").innerText()).toMatch(sentence);
    expect(await page.locator("#meters-subject").innerText()).toContain("your address");
    expect(await page.locator("#headers").textContent()).toContain("WWW-AuthenticateBearer");
    expect(await page.locator("#orders").isHidden()).toBe(true);
  });

  test("uses up the minute, shows the 429 and its countdown, then a ban", async () => {
    const { page } = await reference.open({ clock: true });
    const key = reference.demoKeys.free;
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Use up the minute" }).click();
    await page.locator("#wait").waitFor();
    expect(await page.locator(".status b").innerText()).toBe("429 Too Many Requests");
    expect(await page.locator(MINUTE).innerText()).toBe("0 of 60");
    expect(await page.locator(DAY).innerText()).toBe("940 of 1,000");
    expect(await page.locator("#wait").innerText()).toMatch(/^[1-6]\d? s[^]*A window is full/);
    expect(await page.locator("#headers").textContent()).toMatch(/^Retry-After\d/);
    const before = Number.parseInt(await page.locator("#wait-seconds").innerText(), 10);
    await page.clock.runFor(5_000);
    const after = Number.parseInt(await page.locator("#wait-seconds").innerText(), 10);
    expect(before - after).toBeGreaterThanOrEqual(4);
    await page.clock.runFor(60_000);
    expect(await page.locator("#wait").innerText()).toContain("The wait is over");
    expect(await page.locator(MINUTE).innerText()).toBe("60 of 60");

    await expect
      .poll(() => codeOf(reference.origin, key), {
        interval: 5,
        timeout: 20_000,
      })
      .toBe("api_key_banned");
    await page.getByRole("button", { name: "List orders" }).click();
    await expectText(page, "#wait", /The key is banned/);
    expect(await page.locator("#body").innerText()).toContain("api_key_banned");
    expect(await page.locator(DAY).innerText()).toBe("0 of 1,000");
  });
}

async function codeOf(origin: string, key: string): Promise<unknown> {
  const headers = { Authorization: `Bearer ${key}` };
  const response = await fetch(`${origin}/v1/store/orders`, { headers });
  const body = (await response.json()) as { code?: unknown };
  return body.code;
}
