import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Locator, Page, Route } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { StoreFolder } from "../operator/store-folder.ts";
import { copyProject, Service } from "../process/service.ts";
import { findChromium, launchChromium } from "./chromium.ts";
import { violations } from "./violations.ts";

const chromium = findChromium();

/** The operator's address, which the service shows to callers. */
const CONTACT = "orders@shop.example";
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

const STATUS = ".status-line b";
const MINUTE = '[data-window="minute"]';
const DAY = '[data-window="day"]';

interface OpenOptions extends BrowserContextOptions {
  /** True installs a fake clock in the page. */
  readonly hasClock?: boolean;
  /** The origin of the page in the browser. Default: the origin of the service. */
  readonly from?: string;
}

const QUOTA = {
  "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
  RateLimit: '"minute";r=9;t=60, "day";r=900;t=86399',
};

/** Answers to the list that the console shows in different ways. */
const ANSWERS = [
  { body: '[{"id":1}]', headers: { ...QUOTA, RateLimit: '"minute";r=0;t=1, "day";r=1000;t=9' } },
  { body: "[]", headers: QUOTA },
  { body: `[{"id":1}${" ".repeat(30_000)}]`, headers: QUOTA },
  { status: 401, body: '{"code":"unauthorized","message":"No key."}', headers: QUOTA },
  ...["rate_limit_exceeded", "api_key_banned"].map((code) => ({
    status: 429,
    body: JSON.stringify({ code }),
    headers: { ...QUOTA, "Retry-After": "86399" },
  })),
  { status: 503, body: '{"code":"service_unavailable","message":"Later."}', headers: QUOTA },
];

const store = new StoreFolder();
let keys: Record<string, string>;
let service: Service;
let browser: Browser;
let origin: string;
/** Errors and warnings in the browser's console, except those about 4xx and 5xx API responses. */
let complaints: string[];
/** The URLs that the current test's page has requested, except `data:` URLs. */
let requests: string[];

// The tests share a store, but no two cancel the same order or use up the limits of the same key.
describe.skipIf(chromium === undefined)("the reference page", () => {
  beforeAll(async () => {
    // Counts every refusal towards a ban, even in the ten seconds after the first refusal.
    const root = copyProject(join(store.path, "project"), "BAN_GRACE_SECONDS=0");
    const settings = join(root, "wrangler.toml");
    const text = readFileSync(settings, "utf8");
    writeFileSync(settings, text.replace(/(?<=^command = ".*)(?=")/m, ` -- --contact ${CONTACT}`));
    [service, browser] = await Promise.all([
      Service.start(store.path, { root }),
      launchChromium(chromium ?? ""),
    ]);
    keys = service.demoKeys;
    origin = `http://localhost:${service.port}`;
  });

  afterAll(async () => {
    await browser?.close();
    await service?.end("SIGTERM");
    store.remove();
  });

  afterEach(() => {
    expect(complaints).toStrictEqual([]);
    expect(requests.filter((url) => !url.startsWith(`${origin}/`))).toStrictEqual([]);
  });

  test("shows the first call on the first screen, loads from one origin, and says whom to ask", async () => {
    const page = await open();
    const { headers } = await fetch(origin);
    const policy = headers.get("Content-Security-Policy");
    expect(policy).toMatch(/^default-src 'none'; script-src 'self';/);
    expect(policy).not.toContain("unsafe");
    expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
    expect(apiRequests()).toStrictEqual([]);
    expect(await page.context().storageState()).toStrictEqual({ cookies: [], origins: [] });

    const visible = page.locator(".intro pre:visible");
    expect(await visible.first().innerText()).toBe(
      `curl -i ${origin}/v1/store/orders \\\n  -H "Authorization: Bearer YOUR_API_KEY"`,
    );
    const answer = await visible.last().boundingBox();
    expect((answer?.y ?? NaN) + (answer?.height ?? NaN)).toBeLessThan(900);
    expect(await visible.last().innerText()).toMatch(/^HTTP\/1.1 200 OK\n[^]*\]$/);

    const text = await page.locator("main").innerText();
    for (const hint of ["npm start", "Trigger a ban", `${origin}/v1`]) expect(text).toContain(hint);
    const hrefs = await page
      .getByRole("link", { name: CONTACT })
      .evaluateAll((links) => links.map((link) => link.getAttribute("href")));
    expect(hrefs).toStrictEqual([`mailto:${CONTACT}`, `mailto:${CONTACT}`]);
    const { info, servers } = await (await fetch(`${origin}/openapi.json`)).json();
    expect(servers[0].url).toBe(`${origin}/v1`);
    expect(info.contact).toStrictEqual({ email: CONTACT });

    // A link to the code of an error shows the error and its explanation.
    await page.goto(`${origin}/#order_already_shipped`);
    const explanation = page.getByText("The order has shipped; it is unchanged.");
    for (const target of [page.locator("#order_already_shipped"), explanation]) {
      await expect.poll(() => isClear(target)).toBe(true);
    }
  });

  test("puts the pasted key into a sample that is copied, and shows it only while Show is on", async () => {
    const page = await open();
    const key = keys["pro"] ?? "";
    await page.locator("#first-key").fill(` ${key} `);
    await page.locator(".intro").getByText("Python", { exact: true }).click();
    expect(await page.locator("#cancelOrder pre:visible").first().innerText()).toContain("urllib");
    const sample = page.locator(".intro pre:visible").first();
    const shown = async () => new Set(await page.locator("[data-key]").allTextContents());
    for (const [text, type] of [
      ["YOUR_API_KEY", "password"],
      [key, "text"],
      ["YOUR_API_KEY", "password"],
    ] as const) {
      expect(await shown()).toStrictEqual(new Set([text]));
      const fields = page.locator("[data-key-field]");
      expect(await fields.evaluateAll((all) => all.map((one) => one.getAttribute("type")))).toEqual(
        [type, type],
      );
      await page.getByRole("button", { name: "Copy: First call (Python)" }).click();
      expect(await clipboard(page)).toBe((await sample.innerText()).replace("YOUR_API_KEY", key));
      expect((await page.locator("main").innerText()).includes(key)).toBe(type === "text");
      await page.locator(".intro").getByRole("button", { name: "Show" }).click();
    }

    // The console also has the pasted key, and lists the orders with this key.
    await page.locator(".intro").getByRole("button", { name: "List orders" }).click();
    await expectText(page, STATUS, /^200/);
    await page.locator("#key").fill("");
    expect(await shown()).toStrictEqual(new Set(["YOUR_API_KEY"]));

    // Without a valid key, the console shows the limits of the client's IP address.
    for (const [wrong, sentence] of [
      ["", /No API key was sent/],
      ["sord_invented", /not an API key of this service/],
    ] as const) {
      await listOrders(page, wrong);
      await expectText(page, "#summary", sentence);
      expect(await page.locator(STATUS).innerText()).toBe("401 Unauthorized");
      expect(await page.locator("#meters-subject").innerText()).toContain("your address");
      expect(await page.locator("#headers-sent").textContent()).toContain("WWW-AuthenticateBearer");
      expect(await page.locator("#orders").isVisible()).toBe(true);
    }

    await page.locator("#key").fill(keys["enterprise"] ?? "");
    await page.getByRole("button", { name: "Trigger a 429" }).click();
    await expectText(page, "#progress", /\d+ requests admitted/);
    expect(await page.locator("#meters-subject").innerText()).toBe("");
    await page.getByRole("button", { name: "Stop" }).click();
    await expectText(page, "#summary", /^Stopped/);
    expect(await page.getByRole("button", { name: "Trigger a 429" }).isVisible()).toBe(true);
    await expectText(page, `${MINUTE} .figure`, / of 5,000$/);
    await listOrders(page, keys["enterprise"] ?? "");
    await page.context().setOffline(true);
    await listOrders(page);
    await expectText(page, "#summary", /No complete answer came/);
    expect(await page.locator("#orders tbody tr").count()).toBeGreaterThan(5);
  });

  test("shows its text, and its tabs work, without JavaScript", async () => {
    const page = await open({ javaScriptEnabled: false });
    await page.locator(".intro").getByText("Go", { exact: true }).click();
    expect(await page.locator(".intro pre:visible").first().innerText()).toContain("package main");
    await page.locator("#cancelOrder label", { hasText: "409" }).click();
    expect(await page.locator("#cancelOrder pre:visible").last().innerText()).toMatch(
      /^HTTP\/1.1 409 Conflict[^]*"order_already_shipped"/,
    );
    expect(await page.locator("#first-key").isVisible()).toBe(false);
    expect(await page.getByText("The console needs JavaScript").isVisible()).toBe(true);
  });

  test("lists and cancels orders with every digit, and shows what is left of the limits", async () => {
    const page = await open();
    await listOrders(page, keys["business"] ?? "");
    expect(await page.locator(STATUS).innerText()).toBe("200 OK");
    expect(await page.locator(".status-line").innerText()).toMatch(/\d+ ms$/);
    const ids = await page.locator("#orders tbody td:first-child").allTextContents();
    expect(ids[0]).toBe("-9223372036854775808");
    expect(ids.at(-1)).toBe("9223372036854775807");
    expect(await page.locator("#body").textContent()).toContain('"id":9223372036854775807,');
    expect(await page.locator(`${MINUTE} .figure`).innerText()).toBe("999 of 1,000");
    expect(await page.locator(`${DAY} .figure`).innerText()).toBe("99,999 of 100,000");
    expect(await page.locator("#headers-sent").textContent()).toMatch(/X-RateLimit-Remaining999/);
    await listOrders(page);
    await expectText(page, `${MINUTE} .figure`, /^998 of/);
    expect(await page.evaluate(() => ({ ...localStorage, ...sessionStorage }))).toStrictEqual({});

    // The whole table of orders is visible, with the body of the response beside it.
    const scroll = page.locator("#orders .scroll");
    expect(await scroll.evaluate((box) => box.scrollWidth - box.clientWidth)).toBe(0);
    const [table, raw] = [await scroll.boundingBox(), await page.locator("#body").boundingBox()];
    expect(raw?.x).toBeGreaterThan((table?.x ?? 0) + (table?.width ?? 0));

    await page.getByRole("button", { name: "Copy body" }).click();
    expect(await clipboard(page)).toBe(await page.locator("#body").textContent());
    await page.getByRole("button", { name: "Copy as curl" }).click();
    expect(await clipboard(page)).toBe(
      `curl -i -H 'Authorization: Bearer ${keys["business"] ?? ""}' '${origin}/v1/store/orders'`,
    );

    // The row of a cancelled order stays, and shows a note.
    const before = apiRequests().length;
    await page.getByRole("button", { name: "Cancel order 1001" }).click();
    await page.getByRole("button", { name: "Keep it" }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(apiRequests()).toHaveLength(before);

    await page.getByRole("button", { name: "Cancel order 1001" }).click();
    await confirmCancellation(page);
    await expectText(page, STATUS, /^204/);
    await expectText(page, "tr:has(> :text-is('1001'))", /Cancelled$/);
    expect(await page.getByRole("button", { name: "Cancel order 1001" }).count()).toBe(0);
    await page.getByRole("button", { name: "Cancel order 1004" }).click();
    await confirmCancellation(page);
    await expectText(page, "tr:has(> :text-is('1004'))", /Has shipped$/);
    for (const [id, answer] of [
      ["1001", /order_not_found/],
      ["9223372036854775807", /^$/],
      ["not/an 'id'", /int64/],
    ] as const) {
      await page.getByRole("textbox", { name: "orderId" }).fill(id);
      await page.getByRole("button", { name: "Cancel order", exact: true }).click();
      await confirmCancellation(page);
      await expectText(page, ".status-line", new RegExp(`DELETE .*${encodeURIComponent(id)}`));
      await expectText(page, "#body", answer);
    }
    await page.getByRole("button", { name: "Copy as curl" }).click();
    expect(await clipboard(page)).toMatch(/ 'http[^ ]*not%2Fan%20'\\''id'\\'''$/);
    await expectText(page, "tr:has(> :text-is('1001'))", /Is gone$/);
    await expectText(page, "tr:has(> :text-is('9223372036854775807'))", /Cancelled$/);

    // Without an order id, nothing is sent, and everything stays.
    await page.getByRole("textbox", { name: "orderId" }).fill(" ");
    await page.getByRole("button", { name: "Cancel order", exact: true }).click();
    await expectText(page, "#order-id-note", /^Which order/);
    expect(await page.locator("#answer").isVisible()).toBe(true);
    expect(await page.locator("#orders").isVisible()).toBe(true);
    expect(apiRequests()).toHaveLength(before + 5);

    await listOrders(page, keys["business"] ?? "");
    await expectText(page, "#orders-note", /^8 orders/);
    const left = await page.locator("#orders tbody td:first-child").allTextContents();
    expect(left).toContain("1004");
    expect(left).not.toContain("1001");
    expect(left).not.toContain("9223372036854775807");

    // A long list has its total, finds an id, and is downloaded rather than copied in part.
    const first = 2n ** 53n;
    const rows = Array.from({ length: 2_000 }, (_, index) => `{"id":${first + BigInt(index)}}`);
    const long = `[${rows.join()}]`;
    await answerWith(page, { body: long });
    await listOrders(page);
    await expectText(page, "#orders-note", /^2,000 orders\. The table shows the first 100/);
    expect(await page.locator("#orders tbody tr").count()).toBe(100);
    await page.getByLabel("Find an id").fill(String(first + 1_999n));
    const found = page.locator("#orders tbody td:first-child");
    expect(await found.allTextContents()).toStrictEqual([String(first + 1_999n)]);
    await page.getByLabel("Find an id").fill(String(first + 2_000n));
    await expectText(page, "#orders-note", /^No order in this list has this id/);
    expect(await found.count()).toBe(0);
    expect(await page.getByRole("button", { name: "Copy body" }).isVisible()).toBe(false);
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    expect(readFileSync(await (await downloading).path(), "utf8")).toBe(long);
  });

  test("shows what the newest answer alone says, whatever was shown before", async () => {
    const page = await open({ hasClock: true });
    await page.clock.pauseAt(Date.now() + 60_000);
    const shown = () =>
      page.locator("#results").evaluate((results) => {
        const { outerHTML: meters } = results.querySelector("#meters") ?? results;
        const parts = ["#meters-subject", "#wait", "#summary", "#answer"];
        const html = parts.map((part) => results.querySelector(part)?.outerHTML);
        const isHidden = /hidden/.test(html[1]?.slice(0, 60) ?? "");
        if (isHidden) html[1] = "";
        return [meters, ...html].join("\n").replace(/<span>\d+ ms<\/span>/, "");
      });
    const show = async (answer: object) => {
      await answerWith(page, answer);
      await listOrders(page);
      return shown();
    };
    const alone: string[] = [];
    for (const answer of ANSWERS) {
      await page.goto(origin);
      alone.push(await show(answer));
    }
    // Each answer follows each other one, and itself.
    const order = ANSWERS.flatMap((_, first) => [
      first,
      ...ANSWERS.flatMap((__, other) => (other > first ? [other, first] : [])),
      first,
    ]);
    for (const [step, index] of order.entries()) {
      expect(await show(ANSWERS[index] ?? {}), `${order[step - 1]}, then ${index}`).toBe(
        alone[index],
      );
    }

    // A button that was pressed twice has its own words again, not "Copied".
    const copy = page.locator("#copy-curl");
    for (let presses = 0; presses < 2; presses++) {
      await copy.click();
      await expectText(page, "#copy-curl", /^Copied$/);
      await clipboard(page);
    }
    await page.clock.runFor(2_000);
    expect(await copy.innerText()).toBe("Copy as curl");
  });

  test("sends a request once, and never shows a late answer over a newer one", async () => {
    const page = await open();
    await listOrders(page, keys["business"] ?? "");
    const before = apiRequests().length;
    let release = () => {};
    const isReleased = new Promise<void>((resolve) => (release = resolve));
    await page.route("**/v1/store/orders", async (route) => {
      await isReleased;
      await route.fulfill({ contentType: "application/json", body: "[]" }).catch(() => {});
    });
    const list = page.locator("#list").getByRole("button", { name: "List orders" });
    await list.click();
    await expectText(page, "#progress", /^Listing/);
    expect(await list.getAttribute("aria-disabled")).toBe("true");
    for (let clicks = 0; clicks < 3; clicks++) await list.click({ force: true });
    expect(apiRequests()).toHaveLength(before + 1);
    await page.getByRole("button", { name: "Cancel order 1005" }).click();
    await confirmCancellation(page);
    await expectText(page, STATUS, /^204/);
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Cancelled");
    const figure = await page.locator(`${MINUTE} .figure`).innerText();
    release();
    await page.waitForTimeout(200);
    expect(await page.locator(STATUS).innerText()).toMatch(/^204/);
    expect(await page.locator(`${MINUTE} .figure`).innerText()).toBe(figure);
    expect(await page.locator("#orders tbody tr").count()).toBeGreaterThan(5);
  });

  test("on a phone, shows in its row that a cancellation failed, and the countdown", async () => {
    const page = await open(PHONE);
    // Of these ids, `Number` makes one of each two neighbours.
    const idAt = (index: number) => 2n ** 53n + BigInt(index);
    const rows = Array.from({ length: 60 }, (_, index) => `{"id":${idAt(index)},"quantity":1}`);
    await answerWith(page, { body: `[${rows.join()}]` });
    await listOrders(page, keys["business"] ?? "");
    const headers = { "Retry-After": "40" };
    const row = page.locator("#orders tbody tr").nth(52);
    for (const [answer, note] of [
      [{ status: 401, body: '{"code":"unauthorized"}' }, "401: not cancelled"],
      [null, "No answer: perhaps cancelled"],
      [{ status: 429, headers, body: '{"code":"rate_limit_exceeded"}' }, "429: not cancelled"],
    ] as const) {
      await answerWith(page, answer, `**/v1/store/orders/${idAt(52)}`);
      await row.getByRole("button").click();
      await confirmCancellation(page);
      const shown = row.getByText(note);
      await shown.waitFor();
      expect(await isClear(shown)).toBe(true);
      expect(await row.getByRole("button").isVisible()).toBe(true);
    }
    expect(await isClear(page.locator("#wait-time"))).toBe(true);
    await page.setViewportSize({ width: 320, height: 568 });
    await page.locator("#key").scrollIntoViewIfNeeded();
    await page.locator("#key").focus();
    expect(await isClear(page.locator("#key"))).toBe(true);
    for (const label of ["API key", "orderId"]) {
      expect(await page.locator(`#controls label:text-is("${label}")`).isVisible()).toBe(true);
    }
  });

  test("on paper, has each language and answer; in forced colours, has filled meters", async () => {
    const page = await open();
    await listOrders(page, keys["pro"] ?? "");
    await page.emulateMedia({ media: "print" });
    for (const pane of await page.locator(".tabs .pane pre").all()) {
      expect(await pane.isVisible()).toBe(true);
    }
    await page.emulateMedia({ media: "screen", forcedColors: "active" });
    const fill = page.locator(`${MINUTE} .fill`);
    const colours = await fill.evaluate((bar) =>
      [bar, bar.parentElement ?? bar].map((one) => getComputedStyle(one).backgroundColor),
    );
    expect(new Set(colours).size).toBe(2);
  });

  test("can be used by keyboard alone, with the focus always visible", async () => {
    const page = await open();
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
    await page.keyboard.type(keys["pro"] ?? "");
    await tabTo("first-language");
    await press("ArrowRight");
    expect(await page.locator(".intro pre:visible").first().innerText()).toContain("createClient");

    // A reader who followed a link to the console starts in the field `#key`.
    await page.locator("#key").focus();
    await press("Enter");
    await expectText(page, STATUS, /^200/);
    expect(await isClear(page.locator(":focus"))).toBe(true);
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
    expect(await isClear(page.locator(":focus"))).toBe(true);
  });

  test("is accessible in light and dark mode, with each link of the navigation at every width", async () => {
    const page = await open({ colorScheme: "light" });
    await listOrders(page, keys["pro"] ?? "");
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      expect(ground).toBe(colorScheme === "dark" ? "rgb(15, 18, 24)" : "rgb(255, 255, 255)");
      // In dark mode, checks only contrast, and skips code, whose colours stay the same.
      const inDark = [["color-contrast"], [".code"]] as const;
      const rules = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"];
      const found = await violations(page, ...(colorScheme === "dark" ? inDark : [rules]));
      expect(found).toStrictEqual([]);
    }

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

  test("elsewhere, has no hints for a local service; fits a phone, and shows the answer", async () => {
    const from = "https://orders.example";
    const page = await open({ ...PHONE, from });
    const text = await page.locator("main").innerText();
    expect(text).not.toMatch(/npm start|Trigger a ban/);
    expect(text).toContain(`${from}/v1`);
    const key = await page.locator("#first-key").boundingBox();
    expect((key?.y ?? NaN) + (key?.height ?? NaN)).toBeLessThan(844);
    await listOrders(page, keys["pro"] ?? "");
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
    requests = requests.filter((url) => !url.startsWith(`${from}/`));
  });

  test("triggers a 429 with its countdown, and a ban that looks different", async () => {
    const page = await open({ hasClock: true });
    await page.locator("#key").fill(keys["free"] ?? "");
    await page.getByRole("button", { name: "Trigger a 429" }).click();
    await page.locator("#wait").waitFor();
    expect(await page.locator(STATUS).innerText()).toBe("429 Too Many Requests");
    expect(await page.locator(MINUTE).innerText()).toContain("0 of 60");
    expect(await page.locator(DAY).innerText()).toContain("940 of 1,000");
    await expectText(page, "#wait", /^Limit reached\n+[01]:\d\d[^]*A window is full/);
    // The summary does not repeat the seconds of the countdown.
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
    await page.locator("#key").fill("another");
    await expectText(page, "#progress", /Refusals are free for 10 seconds/);
    await page.clock.runFor(10_000);
    await page.locator("#wait.ban").waitFor();
    await expectText(page, "#wait", /^Key banned\n+[01]:\d\d/);
    expect(await background(page)).not.toBe(limitColour);
    await atEveryWidth(page, async () => expect(await overlaps(page)).toStrictEqual([]));
    expect(await page.locator("#body").innerText()).toContain("api_key_banned");
    expect(await page.locator("#summary").innerText()).not.toMatch(/Wait \d+ seconds/);
    expect(await page.locator(DAY).innerText()).toMatch(/– of 1,000[^]*nothing until the ban ends/);
  });
});

/** Opens the page in a new browser profile, and waits until it is loaded. */
async function open({ hasClock = false, from, ...options }: OpenOptions = {}): Promise<Page> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  onTestFinished(async () => {
    // Ignores errors of routes whose request is still in flight when the test ends.
    await context.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
  });
  if (from !== undefined) {
    await context.route(`${from}/**`, async (route) => {
      const url = route.request().url().replace(from, origin);
      await route.fulfill({ response: await route.fetch({ url }) });
    });
  }
  const page = await context.newPage();
  [complaints, requests] = [[], []];
  page.on("console", (message) => {
    const isOfAnswer = message.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(message.type()) && !isOfAnswer) {
      complaints.push(message.text());
    }
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith("data:")) requests.push(request.url());
  });
  page.on("response", (response) => {
    const isOfPage = !response.url().startsWith(`${origin}/v1`);
    if (isOfPage && response.status() >= 400) complaints.push(response.url());
  });
  if (hasClock) await page.clock.install();
  await page.goto(from ?? origin);
  return page;
}

/** Answers requests to an address in place of the service; `null`: not at all. */
async function answerWith(
  page: Page,
  answer: Parameters<Route["fulfill"]>[0] | null,
  url = "**/v1/store/orders",
): Promise<void> {
  await page.unroute(url);
  const contentType = "application/json";
  await page.route(url, (route) =>
    answer === null ? route.abort() : route.fulfill({ contentType, ...answer }),
  );
}

function apiRequests(): string[] {
  return requests.filter((url) => url.startsWith(`${origin}/v1`));
}

/** Lists the orders with a key, or with the key that is in the field. */
async function listOrders(page: Page, key?: string): Promise<void> {
  if (key !== undefined) await page.locator("#key").fill(key);
  await page.locator("#list").getByRole("button", { name: "List orders" }).click();
  await page.locator("#busy").waitFor({ state: "hidden" });
}

function confirmCancellation(page: Page): Promise<void> {
  return page.getByRole("dialog").getByRole("button", { name: "Cancel order" }).click();
}

async function expectText(page: Page, selector: string, expected: RegExp): Promise<void> {
  await expect
    .poll(() => page.locator(selector).innerText(), { timeout: 10_000 })
    .toMatch(expected);
}

function clipboard(page: Page): Promise<string> {
  return page.evaluate(() => navigator.clipboard.readText());
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

/** Runs `check` at the width of a phone, a tablet, a laptop and a large display, in CSS pixels. */
async function atEveryWidth(page: Page, check: () => Promise<void>): Promise<void> {
  for (const width of [320, 390, 768, 1280, 1920]) {
    await page.setViewportSize({ width, height: 900 });
    await check();
  }
}

/** Returns whether an element is in the window and nothing covers its left or right end. */
function isClear(element: Locator): Promise<boolean> {
  return element.evaluate((target) => {
    const { left, right, top, height } = target.getBoundingClientRect();
    return [left + 1, right - 1].every((x) => {
      const found = document.elementFromPoint(x, top + height / 2);
      return found !== null && (target.contains(found) || found.contains(target));
    });
  });
}

/** Lists the elements that extend beyond the window's right edge, except inside SVG and `pre`. */
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

function background(page: Page): Promise<string> {
  return page.locator("#wait").evaluate((box) => getComputedStyle(box).backgroundColor);
}

/** Lists the pairs of overlapping texts in the box of the countdown. */
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
