import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { atEveryWidth } from "./accessibility.ts";
import { expectText, listOrders, type ReferencePage, STATUS } from "./reference-page.ts";

const MINUTE = '[data-window="minute"]';
const DAY = '[data-window="day"]';

/** Defines the tests of how the console shows limits, refusals and bans. */
export function testLimits(reference: ReferencePage): void {
  test("shows a 401 without a key and with an invented key, and names the address's budget", async () => {
    const { page } = await reference.open();
    for (const [key, sentence] of [
      ["", /No API key was sent/],
      ["sord_invented", /not an API key of this service/],
    ] as const) {
      await listOrders(page, key);
      await expectText(page, "#summary", sentence);
      expect(await page.locator(STATUS).innerText()).toBe("401 Unauthorized");
      expect(await page.locator("#meters-subject").innerText()).toContain("your address");
      expect(await page.locator("#headers-sent").textContent()).toContain("WWW-AuthenticateBearer");
      expect(await page.locator("#orders").isHidden()).toBe(true);
    }
  });

  test("triggers a 429 with its countdown, and a ban that looks different", async () => {
    const { page } = await reference.open({ clock: true });
    await page.locator("#key").fill(reference.demoKeys.free);
    await page.getByRole("button", { name: "Trigger a 429" }).click();
    await page.locator("#wait").waitFor();
    expect(await page.locator(STATUS).innerText()).toBe("429 Too Many Requests");
    expect(await page.locator(MINUTE).innerText()).toContain("0 of 60");
    expect(await page.locator(DAY).innerText()).toContain("940 of 1,000");
    await expectText(page, "#wait", /^Limit reached\n+[01]:\d\d[^]*A window is full/);
    // Only the countdown shows the seconds to wait. The summary of the response must not repeat
    // them.
    expect(await page.locator("#summary").innerText()).not.toMatch(/Wait \d+ seconds/);
    expect(await page.locator("#headers-sent").textContent()).toMatch(/^Retry-After\d/);
    await atEveryWidth(page, async () => expect(await overlaps(page)).toStrictEqual([]));
    const limitColour = await background(page);
    const before = await secondsLeft(page);
    await page.clock.runFor(5_000);
    expect(before - (await secondsLeft(page))).toBeGreaterThanOrEqual(4);
    await page.clock.runFor(60_000);
    expect(await page.locator("#wait").innerText()).toContain("The wait is over");
    expect(await page.locator(MINUTE).innerText()).toContain("60 of 60");

    await page.getByRole("button", { name: "Trigger a ban" }).click();
    await page.getByRole("button", { name: "Have it banned" }).click();
    await expectText(page, "#summary", /Refusals are free for 10 seconds/);
    await page.clock.runFor(10_000);
    await page.locator("#wait.ban").waitFor();
    await expectText(page, "#wait", /^Key banned\n+[01]:\d\d/);
    expect(await background(page)).not.toBe(limitColour);
    await atEveryWidth(page, async () => expect(await overlaps(page)).toStrictEqual([]));
    expect(await page.locator("#body").innerText()).toContain("api_key_banned");
    expect(await page.locator("#summary").innerText()).not.toMatch(/Wait \d+ seconds/);
    expect(await page.locator(DAY).innerText()).toMatch(/0 of 1,000[^]*nothing until the ban ends/);
    await page.clock.runFor(61_000);
    expect(await page.locator("#wait").innerText()).toContain("The ban is over");
    expect(await page.locator(DAY).innerText()).toMatch(/known after the next answer/);
  });

  test("stops a trigger", async () => {
    const { page } = await reference.open();
    await page.locator("#key").fill(reference.demoKeys.enterprise);
    await page.getByRole("button", { name: "Trigger a 429" }).click();
    await expectText(page, "#summary", /\d+ requests admitted/);
    await page.getByRole("button", { name: "Stop" }).click();
    await expectText(page, "#summary", /^Stopped/);
    expect(await page.getByRole("button", { name: "Trigger a 429" }).isVisible()).toBe(true);
  });
}

function background(page: Page): Promise<string> {
  return page.locator("#wait").evaluate((box) => getComputedStyle(box).backgroundColor);
}

/** Lists the pairs of texts in the box of the countdown that are printed over each other. */
function overlaps(page: Page): Promise<string[]> {
  return page.locator("#wait > p").evaluateAll((paragraphs) => {
    const boxes = paragraphs.map((paragraph) => {
      const range = document.createRange();
      range.selectNodeContents(paragraph);
      return { text: paragraph.textContent, box: range.getBoundingClientRect() };
    });
    return boxes.flatMap(({ text, box }, index) =>
      boxes
        .slice(index + 1)
        .filter(({ box: { left, right, top, bottom } }) => {
          const [across, down] = [box.right > left && right > box.left, box.bottom > top];
          return across && down && bottom > box.top;
        })
        .map((other) => `${text} and ${other.text}`),
    );
  });
}

async function secondsLeft(page: Page): Promise<number> {
  const [minutes, seconds] = (await page.locator("#wait-time").innerText()).split(":");
  return 60 * Number(minutes) + Number(seconds);
}
