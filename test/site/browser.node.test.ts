import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type AxeResults, source as AXE } from "axe-core";
import type { Browser, BrowserContextOptions, Locator, Page, Route } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { StoreFolder } from "../operator/store-folder.ts";
import { copyProject, Service } from "../process/service.ts";
import { HOUR_MS } from "../support/clock.ts";
import { needs } from "../support/needs.ts";
import { findChromium, launchChromium } from "./chromium.ts";

const chromium = findChromium();
const WCAG = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];

const ORDERS = "**/v1/store/orders";
const LIST = "#listOrders";
const CANCEL = "#cancelOrder";
const COPY = '[aria-label="Copy: List all orders (curl)"]';
const STATUS = `${LIST} .status-line b`;
const MINUTE = '[data-window="minute"]';
const DAY = '[data-window="day"]';
const IDS = `${LIST} li > code`;
const SAMPLE = `${LIST} .call > .tabs pre:visible`;

type Answer = Parameters<Route["fulfill"]>[0];

/** How long an action in the page, or the answers to it, may take. */
const LIMIT = { timeout: 60_000, interval: 25 };

const WAIT = { "Retry-After": "86399" };
const WHOLE = { body: "[]" };
const BROKEN = { body: '[{"id":1}' };
const UNAUTHORIZED = { status: 401, body: '{"code":"unauthorized","message":"Send `a key`."}' };
const LIMITED = { status: 429, body: '{"code":"rate_limit_exceeded"}', headers: WAIT };
const BANNED = { status: 429, body: '{"code":"api_key_banned"}', headers: WAIT };
const UNAVAILABLE = { status: 503, body: "<p>Proxy", headers: WAIT };
/** Answers, and what the page says of them: the status, and how the explanation begins. */
const ANSWERS = [
  [WHOLE, "200 OK", ""],
  [BROKEN, "200 OK", "The list broke off before its end. Send the request again."],
  [LIMITED, "429 Too Many Requests", "A window is full."],
  [UNAUTHORIZED, "401 Unauthorized", "Send a key."],
  [BANNED, "429 Too Many Requests", "The key kept sending instead of waiting."],
  [UNAVAILABLE, "503 Service Unavailable", "This page does not know this answer."],
] as const;

const store = new StoreFolder();
let keys: Readonly<Record<"free" | "pro" | "business" | "enterprise", string>>;
let service: Service;
let browser: Browser;
let origin: string;
/** Errors and warnings in the browser's console, except those about 4xx and 5xx API responses. */
let complaints: string[];
/** The URLs that the current test's page has requested, except `data:` URLs. */
let requests: string[];
const apiRequests = () => requests.filter((url) => url.startsWith(`${origin}/v1/store`));
const looks = () => requests.filter((url) => url.endsWith("/v1/quota")).length;

/** Of these ids, `Number` makes one of each two neighbours. */
const idAt = (index: number) => String(2n ** 53n + BigInt(index));
const ordersFrom = (count: number) =>
  `[${Array.from({ length: count }, (_, index) => `{"id":${idAt(index)}}`).join()}]`;

// The tests share a store, but no two cancel the same order or use up the limits of the same key.
const CHROMIUM = "Chromium: install it, or set CHROMIUM_PATH";
describe("the reference page", needs(CHROMIUM, chromium !== undefined), () => {
  beforeAll(async () => {
    // Counts every refusal towards a ban, even in the ten seconds after the first refusal.
    const root = copyProject(join(store.path, "project"), "BAN_GRACE_SECONDS=0");
    [service, browser] = await Promise.all([
      Service.start(join(store.path, "store"), { root }),
      launchChromium(chromium ?? ""),
    ]);
    keys = service.demoKeys;
    origin = `http://localhost:${service.port}`;
  });

  afterAll(async () => {
    await browser?.close();
    await service?.end("SIGTERM");
  });

  afterEach(() => {
    expect(complaints).toStrictEqual([]);
    expect(requests.filter((url) => new URL(url).origin !== origin)).toStrictEqual([]);
  });

  test("shows the first call, which copies with the key; hides the key and stores it nowhere", async () => {
    const { page, text, see, press, clear, list } = await open();
    const policy = (await fetch(origin)).headers.get("Content-Security-Policy");
    expect(policy).toMatch(/^default-src 'none'; script-src 'self';(?!.*unsafe)/);
    expect(apiRequests()).toStrictEqual([]);
    const line = `curl -i ${origin}/v1/store/orders \\\n  -H "Authorization: Bearer YOUR_API_KEY"`;
    expect(await text(SAMPLE)).toBe(line);
    await clear(SAMPLE, `${LIST} .send button`);
    await page.locator("#key").fill(` ${keys.pro} `);
    for (const isShown of [false, true, false]) {
      expect(await page.locator("#key").getAttribute("type")).toBe(isShown ? "text" : "password");
      expect((await text("main")).includes(keys.pro)).toBe(isShown);
      for (const _ of ["first", "again"]) await press("Copy: List all orders (curl)");
      await see(COPY, /^Copied$/);
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      expect(copied).toBe(line.replace("YOUR_API_KEY", keys.pro));
      await page.clock.runFor(1_600);
      expect(await text(COPY)).toBe("Copy");
      await page.getByRole("button", { name: "Show", exact: true, pressed: isShown }).click();
    }
    await page.locator("#key").fill(keys.free);
    expect(await text(SAMPLE)).toContain(keys.free);
    await list(keys.pro);
    await see(STATUS, /^200/);
    const stored = () => ({ ...localStorage, ...sessionStorage, cookie: document.cookie });
    expect(await page.evaluate(stored)).toStrictEqual({ cookie: "" });
  });

  test("says what is wrong with a key, keeps the list, and shows only the limits of the key", async () => {
    const { page, see, list, answerWith } = await open();
    await list(keys.enterprise);
    await see(`${MINUTE} .figure`, /^4,999 of 5,000$/);
    const count = await page.locator(IDS).count();
    expect(count).toBeGreaterThan(5);
    for (const [wrong, sentence, note] of [
      ["sord_…", /^Not sent\n+This is no API key/, /^$/],
      ["sord_invented", /not an API key of this service/, /^$/],
      [`sord_${"a".repeat(40)}`, /not an API key of this service/, /^not a key of this service$/],
    ] as const) {
      expect(looks()).toBe(2);
      await list(wrong);
      await see(`${LIST} .outcome`, sentence);
      await see("#key-note", note);
      await see(`${MINUTE} .figure`, /^–$/);
    }
    const good = page.locator("#key-note[data-good]");
    expect(await good.count()).toBe(0);
    await page.locator("#key").fill(keys.enterprise);
    await see(`${MINUTE} .figure`, /^4,999 of 5,000$/);
    expect(await good.allTextContents()).toStrictEqual(["enterprise plan"]);
    await answerWith(BROKEN);
    await list();
    await see(`${LIST} .outcome`, /The list broke off/);
    expect(await page.locator(IDS).count()).toBe(count);
  });

  test("shows its text, and its tabs work, without JavaScript", async () => {
    const { page, text } = await open({ javaScriptEnabled: false });
    await page.locator(LIST).getByText("Go", { exact: true }).click();
    expect(await text(SAMPLE)).toMatch(/^package main/);
    expect(await text("main")).toContain("Sending from this page needs JavaScript");
    expect(await page.locator("button:visible, #key:visible, .meters:visible").count()).toBe(0);
  });

  test("lists and cancels orders with every digit, and shows what is left of the limits", async () => {
    const { page, see, press, list, cancelIn, rowOf, rowNote, cancelOrder } = await open();
    const ids = () => page.locator(IDS).allTextContents();
    await list(keys.business);
    const listed = await ids();
    expect(listed).toHaveLength(10);
    expect([listed[0], listed[9]]).toEqual(["-9223372036854775808", "9223372036854775807"]);
    await see(`${DAY} .figure`, /^99,999 of 100,000$/);
    await see(`${MINUTE} .figure`, /^999 of 1,000$/);
    await page.locator(LIST).getByText("As it was sent").click();
    await see(`${LIST} .sent dl`, /x-ratelimit-remaining\n+999/);
    await see(`${LIST} .sent pre`, /"id":9223372036854775807,/);

    // The row of a cancelled order stays, and shows a note.
    await cancelIn(rowOf("1001"));
    await see(`${LIST} .orders .note`, /^9 orders/);
    expect(await rowOf("1001").getByRole("button").count()).toBe(0);
    await press("Cancel order 1004");
    await page.keyboard.press("Escape");
    await see(`${LIST} .orders .note`, /^9 orders/);
    expect(apiRequests()).toHaveLength(2);
    await cancelIn(rowOf("1004"));
    await see(rowNote("1004"), /^Has shipped$/);
    await see(`${LIST} .orders .note`, /^9 orders/);
    await cancelOrder("9223372036854775807");
    await see(`${CANCEL} .outcome`, /^204[^]*\/9223372036854775807/);
    await cancelOrder('not/an "id"');
    await see(`${CANCEL} .outcome`, /^404[^]*not%2Fan[^]*int64/);
    await see(`${LIST} .orders .note`, /^8 orders/);
    expect(apiRequests()).toHaveLength(5);
    await page.clock.runFor(1);
    await list();
    const gone = ["1001", "9223372036854775807"];
    expect(await ids()).toStrictEqual(listed.filter((id) => !gone.includes(id)));
    // A newer list that has the order can cancel it.
    expect(await rowOf("1004").getByRole("button").count()).toBe(1);
    await press("Send: Look at the quota");
    await see("#getQuota .sent pre", /"plan":"business"/);
  });

  test("an order that is cancelled while a list is read stays cancelled in that list, and one is cancelled at a time", async () => {
    const { page, see, list, rowOf, rowNote, cancelIn, answerWith, hold } = await open();
    const body = ordersFrom(3);
    await answerWith({ body });
    await list(keys.pro);
    const release = await hold({ body });
    await page.locator(`${LIST} .send button`).click();
    const cancel = await hold({ status: 204 }, `${ORDERS}/*`);
    await cancelIn(rowOf(idAt(1)));
    await see(rowNote(idAt(1)), /^Cancelling …$/);
    const button = page.locator(`${CANCEL} .send button`);
    expect(await button.getAttribute("aria-disabled")).toBe("true");
    await rowOf(idAt(2)).getByRole("button").click();
    expect(await page.getByRole("dialog").count()).toBe(0);
    cancel();
    await see(rowNote(idAt(1)), /^Cancelled$/);
    expect(await button.getAttribute("aria-disabled")).toBe("false");
    await see(`${LIST} .orders .note`, /^2 orders/);
    await page.clock.runFor(1); // The list was requested before, and arrives after the cancellation.
    release();
    await see(STATUS, /^200/);
    const buttons = [0, 1, 2].map((index) => rowOf(idAt(index)).getByRole("button").count());
    expect(await Promise.all(buttons)).toStrictEqual([1, 0, 1]);
  });

  test("of a long list, shows the total, finds an id, and offers a download instead of a part", async () => {
    const { page, see, press, list, answerWith, cancelOrder } = await open();
    const find = page.locator(LIST).getByLabel("Find an id");
    for (const [count, note, total] of [
      [1, /^$/, /^1 order\.$/],
      [2_000, /^Only the first 20,000 characters/, /^2,000 orders\. Here are the first 100;/],
    ] as const) {
      const body = ordersFrom(count);
      await answerWith({ body });
      await list();
      await see(`${LIST} .orders .note`, total);
      expect(await find.isVisible()).toBe(count > 1);
      expect(await page.locator(IDS).count()).toBe(Math.min(count, 100));
      const progress = page.locator(`${LIST} .busy span`);
      expect(await progress.textContent()).toMatch(new RegExp(`^${total.source.slice(1, 8)}`));
      const details = page.locator(`${LIST} .sent`);
      if ((await details.getAttribute("open")) === null) await details.locator("summary").click();
      await see(`${LIST} .sent .note`, note);
      const downloading = page.waitForEvent("download");
      await press("Download");
      expect(readFileSync(await (await downloading).path(), "utf8")).toBe(body);
    }
    await find.fill(` ${idAt(1_999)} `);
    expect(await page.locator(IDS).allTextContents()).toStrictEqual([idAt(1_999)]);
    await see(`${LIST} .orders .note`, /^2,000 orders\.$/);
    await list();
    expect(await page.locator(IDS).count()).toBe(100);
    // The total counts a cancelled order whose row is not shown.
    await answerWith({ status: 204 }, `${ORDERS}/*`);
    await cancelOrder(idAt(1_999));
    await see(`${LIST} .orders .note`, /^1,999 orders/);
  });

  test("shows what the newest answer alone says, while it waits nothing, and sends a request once", async () => {
    const { page, text, see, list, answerWith, hold } = await open();
    // In the reverse order, each answer follows another one than before.
    for (const [answer, status, meaning] of [...ANSWERS, ...ANSWERS.toReversed()]) {
      await answerWith(answer);
      await list();
      const isWhole = answer === WHOLE;
      const kind = await page.locator(`${LIST} .status-line`).getAttribute("data-kind");
      expect(kind).toBe(isWhole ? "good" : "bad");
      const said = await page.locator(`${LIST} .outcome :is(b, span, p + p)`).allTextContents();
      const explained = expect.stringMatching(`^${meaning}${isWhole ? "$" : ""}`);
      expect(said).toStrictEqual([status, "GET /v1/store/orders", "1 ms", explained]);
      const waits = await page.locator(`${LIST} .wait:visible`).allInnerTexts();
      expect(waits).toStrictEqual("headers" in answer ? ["Send it again in 23:59:59."] : []);
      expect(await text(`${LIST} .sent`)).toMatch(isWhole ? /^As it was sent$/ : /\n[[{<]/);
    }

    const release = await hold(LIMITED);
    const before = apiRequests().length;
    await page.locator(`${LIST} .send button`).click({ clickCount: 3, force: true });
    await see(`${LIST} .busy`, /^Sending …/);
    expect(await text(`${LIST} .outcome`)).toBe("");
    expect(await page.locator(`${LIST} .sent`).isVisible()).toBe(false);
    // A reader who went on is not called back.
    await page.locator("#key").focus();
    await page.evaluate(() => scrollTo(0, 5_000));
    release();
    await see(`${LIST} .wait`, /23:59:59/);
    expect(await page.evaluate(() => scrollY)).toBe(5_000);
    expect(apiRequests()).toHaveLength(before + 1);
    await page.clock.fastForward(86_398_000);
    expect(await text(`${LIST} .wait`)).toBe("Send it again in 0:01.");
  });

  test("shows no limit, ban or countdown of a key after another key was entered", async () => {
    const { page, see, press, list, cancelOrder, answerWith, hold } = await open();
    const resetsAt = "2100-01-01T00:00:00.000Z";
    const windows = [{ name: "minute", limit: 60, remaining: 0, resetsAt }];
    for (const [ban, kind, title] of [
      [{}, "ban", "Key banned"],
      [null, "limit", "Limit reached"],
    ] as const) {
      const quota = { plan: "free", windows, ban, retryAfterSeconds: 3_000 };
      await answerWith({ body: JSON.stringify(quota) }, "**/v1/quota");
      await answerWith(LIMITED, `${ORDERS}**`);
      await list(keys.pro);
      await cancelOrder("1");
      await see(`#wait.${kind}`, new RegExp(`^${title} 50:00$`));
      await see(`${MINUTE}[data-level="none"] .figure`, /^0 of 60$/);
      for (const panel of [LIST, CANCEL])
        await see(`${panel} .wait`, /^Send it again in 23:59:59\.$/);
      await page.locator("#key").fill("another");
      await see(`${MINUTE} .figure`, /^–$/);
      expect(await page.locator(":is(#wait, .wait):visible").count()).toBe(0);
    }
    // The answer to a look at a former key comes late.
    const body = JSON.stringify({ plan: "free", windows, ban: null, retryAfterSeconds: 0 });
    const releaseLook = await hold({ body }, "**/v1/quota");
    await page.locator("#key").fill(keys.pro);
    await page.locator("#key").fill("");
    releaseLook();
    await list();
    await see(`${MINUTE} .figure`, /^–$/);
    await page.locator("#key").fill(keys.pro);
    await see(`${MINUTE} .figure`, /^0 of 60$/);
    // The reader stops a slow cancellation.
    const release = await hold(WHOLE, `${ORDERS}/*`);
    await cancelOrder("1");
    await press("Stop", page.locator(CANCEL));
    await see(`${CANCEL} .outcome`, /^Stopped[^]*may or may not be cancelled/);
    release();
  });

  test("on a phone, shows in its row that a cancellation failed, and the countdown of a wait or ban", async () => {
    const phone = { viewport: { width: 320, height: 568 }, hasTouch: true, isMobile: true };
    const { page, text, see, press, clear, list, cancelIn, answerWith } = await open(phone);
    await page.evaluate(() => (navigator.clipboard.writeText = () => Promise.reject("blocked")));
    await press("Copy: List all orders (curl)");
    await see(COPY, /^Not copied: select it$/);
    await answerWith({ body: ordersFrom(60) });
    await list(keys.pro);
    await clear(STATUS);
    const row = page.locator(`${LIST} li`).nth(52);
    for (const [answer, note] of [
      [{ status: 500, body: "" }, "500: perhaps cancelled"],
      [{ status: 503, body: "" }, "503: perhaps cancelled"],
      [null, "No answer: perhaps cancelled"],
      [LIMITED, "429: not cancelled"],
    ] as const) {
      await answerWith(answer, `${ORDERS}/${idAt(52)}`);
      await cancelIn(row);
      await clear(row.getByText(note), row.getByRole("button"));
    }
    await answerWith({ status: 404, body: '{"code":"order_not_found"}' }, `${ORDERS}/*`);
    await cancelIn(row);
    await clear(row.getByText("Is gone"));
    await see(`${LIST} .orders .note`, /^59 orders/);
    await answerWith(BANNED);
    await list();
    await see(`${LIST} .outcome`, /during the ban/);
    await see(`${LIST} .wait`, /23:59:59/);
    await clear(STATUS, `${LIST} .wait`);
    // The other samples change too.
    await page.locator(`${CANCEL} label`, { hasText: "Go" }).click();
    expect(await text(SAMPLE)).toMatch(/^package main/);
    await page.locator("#errors label", { hasText: "503" }).click();
    expect(await page.evaluate(cutElements)).toStrictEqual([]);
  });

  test("can be used by keyboard alone, in few steps", async () => {
    const { page, see, clear } = await open();
    const type = (text: string) => page.keyboard.type(text);
    const tabTo = async (selector: string, most: number) => {
      const isThere = () => page.locator(`${selector}:focus`).count();
      for (let stops = 0; (await isThere()) === 0; stops++) {
        expect(stops, selector).toBeLessThan(most);
        await page.keyboard.press("Tab");
      }
    };
    await tabTo("#key", 3);
    await type(`${keys.pro}\n`);
    await see("#key-note", /^pro plan$/);
    await tabTo("[name=listOrders-language]", 20);
    await page.keyboard.press("ArrowRight");
    await see(SAMPLE, /createClient/);
    await tabTo(`${LIST} .send button`, 4);
    await type("\n");
    await see(STATUS, /^200/);
    await clear(STATUS, ":focus");
    // The first row's button, behind the field that finds an id.
    await tabTo(`${LIST} li:nth-child(2) button`, 6);
    await type("\n");
    await see(":focus", /^Keep the order$/);
    await page.keyboard.press("Tab");
    await type("\n");
    await see(":focus", /^Cancelled$/);
    await clear(":focus");
  });

  test("is accessible in each state, light and dark, cuts nothing off at any width, and can be printed", async () => {
    const { page, list, clear, answerWith, cancelOrder } = await open({ colorScheme: "light" });
    await page.clock.resume();
    await list(keys.pro);
    await page.locator(LIST).getByText("As it was sent").click();
    await answerWith(LIMITED, `${ORDERS}/*`);
    await cancelOrder("1005");
    for (const width of [375, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme: "light" });
      expect(await violations(page)).toStrictEqual([]);
      await page.emulateMedia({ colorScheme: "dark" });
      // Skips code, whose colours stay the same.
      expect(await violations(page, ["color-contrast"], [".code"])).toStrictEqual([]);
    }
    await page.emulateMedia({ colorScheme: "light" });
    const links = await page.locator(".sections a").all();
    for (const width of [320, 768, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      await page.evaluate(() => scrollTo(0, 0));
      await clear(...links, "#key", MINUTE, DAY);
      expect(await page.evaluate(cutElements)).toStrictEqual([]);
    }
    await page.evaluate(() => (location.hash = "cancelOrder"));
    const current = page.locator(".sections [aria-current]");
    await expect.poll(() => current.allInnerTexts(), LIMIT).toStrictEqual(["Cancel"]);
    expect(await page.locator('pre:not([dir="ltr"])').count()).toBe(0);
    // On paper, each language and answer is shown.
    await page.emulateMedia({ media: "print" });
    expect(await page.locator(".tabs pre:not(:visible)").count()).toBe(0);
    expect(await page.locator("#key").isVisible()).toBe(false);
  });

  test("looks at the quota again when a window ends, by the service's clock", async () => {
    const { page, see, list, answerWith } = await open();
    const meter = (window: string) =>
      page.locator(window).evaluate((element) => {
        const { dataset, lastElementChild: track } = element as HTMLElement;
        const said = ["max", "now", "text"].map((name) => track?.getAttribute(`aria-value${name}`));
        const { width } = (track!.firstElementChild as HTMLElement).style;
        return [dataset["level"], width, ...said].join();
      });
    const windows = [
      { name: "minute", limit: 60, remaining: 12, resetsAt: "2026-12-01T09:00:30.000Z" },
      { name: "day", limit: 1_000, remaining: 1_000, resetsAt: null },
    ];
    const body = JSON.stringify({ plan: "free", windows, ban: null, retryAfterSeconds: 0 });
    const headers = { Date: "Tue, 01 Dec 2026 09:00:00 GMT" };
    await answerWith({ headers, body }, "**/v1/quota");
    await page.locator("#key").fill(keys.free);
    await see(`${MINUTE} .note`, /^back in 0:30$/);
    const before = looks();
    await page.clock.runFor(29_000);
    expect(await meter(MINUTE)).toBe("low,20%,60,12,12 of 60 back in 0:01");
    expect(await meter(DAY)).toBe("plenty,100%,1000,1000,1,000 of 1,000 all left");
    expect(await page.locator("#wait").isVisible()).toBe(false);
    expect(looks()).toBe(before);
    await page.clock.runFor(1_250);
    await see(`${MINUTE} .note`, /^back in 0:30$/);
    expect(looks()).toBe(before + 1);
    // What is unknown is not shown.
    const unknown = "unknown,0%,0,0,– ";
    await answerWith(null, "**/v1/quota");
    await answerWith(WHOLE);
    await list();
    await expect.poll(() => meter(MINUTE), LIMIT).toBe(unknown);
    await answerWith(UNAVAILABLE, "**/v1/quota");
    await list();
    await see("#key-note:not([data-good])", /^limits unknown$/);
    expect(await meter(DAY)).toBe(unknown);
  });

  test("triggers a 429 and a ban, which look different, each with a countdown and an end", async () => {
    const { page, see, press } = await open();
    /** Expects a countdown, moves the clock to its end, and expects what the page shows then. */
    const countDown = async (title: string) => {
      await see("#wait", new RegExp(`^${title} [01]:\\d\\d`));
      await see("#limits .wait", /^Send it again in [01]:\d\d/);
      await page.clock.runFor(61_000);
      await see("#limits .wait", /^Send it again now/);
    };
    // Another answer than a refusal ends it.
    await page.locator("#key").fill("sord_invented");
    await press("Trigger a 429");
    await see("#limits .outcome", /^401 Unauthorized/);
    await page.locator("#key").fill(keys.free);
    await press("Trigger a 429");
    await see("#limits .outcome", /^429 Too Many Requests[^]*A window is full/);
    await see(MINUTE, /^Minute\n0 of 60\n/);
    await see(DAY, /940 of 1,000/);
    await countDown("Limit reached");
    await press("Trigger a ban");
    await press("Have it banned");
    await see("#limits .busy", /Refusals are free for 10 seconds/);
    await page.clock.runFor(10_000);
    await see("#limits .outcome", /^429[^]*during the ban/);
    await see("#limits .sent pre", /api_key_banned/);
    await countDown("Key banned");
  });
});

/**
 * Opens the page in a new browser profile, and returns it with what a reader does there. Its clock
 * stands still until the test moves it, so it changes only by what the test does, and by answers.
 */
async function open(options: BrowserContextOptions = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  context.setDefaultTimeout(LIMIT.timeout);
  onTestFinished(async () => {
    // Ignores errors of routes whose request is still in flight when the test ends.
    await context.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
  });
  const page = await context.newPage();
  [complaints, requests] = [[], []];
  page.on("console", (message) => {
    const isOfAnswer = message.location().url.includes("/v1/");
    if (/error|warning/.test(message.type()) && !isOfAnswer) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith("data:")) requests.push(request.url());
  });
  await page.clock.install({ time: Date.now() - HOUR_MS });
  await page.goto(origin);
  await page.clock.pauseAt(Date.now());

  const fulfill = (route: Route, how: Answer | null) =>
    how === null ? route.abort() : route.fulfill({ contentType: "application/json", ...how });
  const text = (selector: string) => page.locator(selector).innerText();
  const press = (name: string, place: Page | Locator = page) =>
    place.getByRole("button", { name, exact: true }).click();
  const confirm = () => press("Cancel the order", page.getByRole("dialog"));
  const rowOf = (id: string) => `${LIST} li[data-id="${id}"]`;
  return {
    page,
    text,
    press,
    rowOf: (id: string) => page.locator(rowOf(id)),
    rowNote: (id: string) => `${rowOf(id)} .row-note`,
    /** Expects a text now or soon. */
    see: (selector: string, expected: RegExp) =>
      expect.poll(() => text(selector), { ...LIMIT, message: selector }).toMatch(expected),
    /** Expects that elements are in the window, and that nothing covers their sides. */
    clear: async (...targets: readonly (string | Locator)[]) => {
      for (const target of targets) {
        const found = typeof target === "string" ? page.locator(target).first() : target;
        const about = { ...LIMIT, message: String(target) };
        await expect.poll(() => found.evaluate(isClear), about).toBe(true);
      }
    },
    /** Answers requests to an address in place of the service; `null`: not at all. */
    answerWith: (how: Answer | null, url = ORDERS) =>
      page.route(url, (route) => fulfill(route, how)),
    /** Holds the answers to an address back until the returned function is called. */
    hold: async (how: Answer = WHOLE, url = ORDERS) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      await page.route(url, async (route) => {
        await promise;
        await fulfill(route, how).catch(() => {});
      });
      return resolve;
    },
    /** Lists the orders with a key, or with the key that is in the field, until the answer is shown. */
    list: async (key?: string) => {
      if (key !== undefined) await page.locator("#key").fill(key);
      await page.locator(`${LIST} .send button`).click();
      await page.locator(`${LIST} .busy`).waitFor({ state: "hidden" });
    },
    /** Presses the button that cancels an order in its row, and confirms. */
    cancelIn: async (row: Locator) => {
      await row.getByRole("button").click();
      await confirm();
    },
    /** Cancels an order by the form, and confirms. */
    cancelOrder: async (id: string) => {
      await page.locator(`${CANCEL} .send input`).fill(id);
      await page.locator(`${CANCEL} .send button`).click();
      await confirm();
    },
  };
}

/** Lists the violations of these rules, or tags of rules, that axe finds outside the excluded elements. */
async function violations(page: Page, rules: readonly string[] = WCAG, exclude: string[] = []) {
  await page.evaluate(AXE);
  const [part, options] = [{ exclude }, { runOnly: rules, resultTypes: ["violations"] }];
  const run = `axe.run(${JSON.stringify(part)}, ${JSON.stringify(options)})`;
  const results: AxeResults = await page.evaluate(run);
  return results.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} ${target.join(" ")}: ${failureSummary}`),
  );
}

/** Returns whether an element is in the window, and nothing covers its left or right end. */
function isClear(element: Element): boolean {
  const { left, right, top, height } = element.getBoundingClientRect();
  return [left + 1, right - 1].every((x) => {
    const found = document.elementFromPoint(x, top + height / 2);
    return found !== null && (element.contains(found) || found.contains(element));
  });
}

/** Lists the elements beyond the window's right edge, except inside SVG and boxes that scroll. */
function cutElements(): string[] {
  const all = [document.documentElement, ...document.querySelectorAll("main *")];
  const cut = all.filter((element) => {
    const { right, width } = element.getBoundingClientRect();
    const isScrolled = element.closest("svg, pre, table, .unseen") !== null;
    return width > 0 && right > innerWidth && !isScrolled;
  });
  return cut.map((element) => `${element.tagName}.${element.className}`);
}
