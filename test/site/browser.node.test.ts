import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Locator, Page, Route } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { StoreFolder } from "../operator/store-folder.ts";
import { copyProject, Service } from "../process/service.ts";
import { HOUR_MS } from "../support/clock.ts";
import { needs } from "../support/needs.ts";
import { PATIENCE } from "../support/patience.ts";
import { findChromium, launchChromium } from "./chromium.ts";
import { violations } from "./violations.ts";

const chromium = findChromium();

/** The operator's address, which the service shows to callers. */
const CONTACT = "orders@shop.example";
const ELSEWHERE = "https://orders.example";
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

const WAIT = { "Retry-After": "86399" };

const WHOLE = { body: "[]" };
const BROKEN = { body: '[{"id":1}' };
const UNAUTHORIZED = { status: 401, body: '{"code":"unauthorized"}' };
const LIMITED = { status: 429, body: '{"code":"rate_limit_exceeded"}', headers: WAIT };
const BANNED = { status: 429, body: '{"code":"api_key_banned"}', headers: WAIT };
const UNAVAILABLE = { status: 503, body: '{"code":"service_unavailable"}', headers: WAIT };
/** Answers that the page shows in different ways. */
const ANSWERS = [WHOLE, BROKEN, LIMITED, UNAUTHORIZED, BANNED, UNAVAILABLE];

const store = new StoreFolder();
let keys: Readonly<Record<"free" | "pro" | "business" | "enterprise", string>>;
let service: Service;
let browser: Browser;
let origin: string;
/** Errors and warnings in the browser's console, except those about 4xx and 5xx API responses. */
let complaints: string[];
/** The URLs that the current test's page has requested, except `data:` URLs. */
let requests: string[];

// The tests share a store, but no two cancel the same order or use up the limits of the same key.
const CHROMIUM = "Chromium: install it, or set CHROMIUM_PATH";
describe("the reference page", needs(CHROMIUM, chromium !== undefined), () => {
  beforeAll(async () => {
    // Counts every refusal towards a ban, even in the ten seconds after the first refusal.
    const root = copyProject(join(store.path, "project"), "BAN_GRACE_SECONDS=0");
    const settings = join(root, "wrangler.toml");
    const text = readFileSync(settings, "utf8");
    writeFileSync(settings, text.replace(/(?<=^command = ".*)(?=")/m, ` -- --contact ${CONTACT}`));
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
    const strange = requests.filter((url) => ![origin, ELSEWHERE].includes(new URL(url).origin));
    expect(strange).toStrictEqual([]);
  });

  test("shows the first call, which copies with the key; hides the key and stores it nowhere", async () => {
    const { page, text, see, press, clear, list } = await open({}, { hasClock: true });
    const policy = (await fetch(origin)).headers.get("Content-Security-Policy");
    expect(policy).toMatch(/^default-src 'none'; script-src 'self';(?!.*unsafe)/);
    expect(apiRequests()).toStrictEqual([]);
    const line = `curl -i ${origin}/v1/store/orders \\\n  -H "Authorization: Bearer YOUR_API_KEY"`;
    expect(await text(SAMPLE)).toBe(line);
    await clear(SAMPLE, `${LIST} .send button`);
    expect(await text("main")).toContain("Trigger a ban");
    const contacts = page.locator(`a[href="mailto:${CONTACT}"]`, { hasText: CONTACT });
    expect(await contacts.count()).toBe(2);

    await page.locator("#key").fill(` ${keys.pro} `);
    for (const isShown of [false, true, false]) {
      expect(await page.locator("#key").getAttribute("type")).toBe(isShown ? "text" : "password");
      expect((await text("main")).includes(keys.pro)).toBe(isShown);
      await press("Copy: List all orders (curl)");
      expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
        line.replace("YOUR_API_KEY", keys.pro),
      );
      await press("Show");
    }
    await page.locator("#key").fill(keys.free);
    expect(await text(SAMPLE)).toContain(keys.free);
    await press("Show");
    await page.clock.pauseAt(Date.now() + 2 * HOUR_MS);
    for (let times = 0; times < 2; times += 1) {
      await press("Copy: List all orders (curl)");
      await see(COPY, /^Copied$/);
    }
    await page.clock.runFor(2_000);
    expect(await text(COPY)).toBe("Copy");
    await page.clock.resume();
    await list();
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
      await list(wrong);
      await see(`${LIST} .outcome`, sentence);
      await see("#key-note", note);
      await see(`${MINUTE} .figure`, /^–$/);
    }
    await page.locator("#key").fill(keys.enterprise);
    await see(`${MINUTE} .figure`, /^4,999 of 5,000$/);
    await see("#key-note", /^enterprise plan$/);
    await answerWith(BROKEN);
    await list();
    await see(`${LIST} .outcome`, /The list broke off/);
    expect(await page.locator(`${LIST} [data-kind=good]`).count()).toBe(0);
    expect(await page.locator(IDS).count()).toBe(count);
  });

  test("shows its text, and its tabs work, without JavaScript", async () => {
    const { page, see } = await open({ javaScriptEnabled: false });
    await page.locator(LIST).getByText("Go", { exact: true }).click();
    await see(SAMPLE, /^package main/);
    await see("main", /Sending from this page needs JavaScript/);
    expect(await page.locator("button:visible, #key:visible, .meters:visible").count()).toBe(0);
  });

  test("lists and cancels orders with every digit, and shows what is left of the limits", async () => {
    const { page, see, press, list, cancelIn, rowOf, cancelOrder } = await open();
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
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(apiRequests()).toHaveLength(2);
    await cancelIn(rowOf("1004"));
    await rowOf("1004").getByText("Has shipped").waitFor();
    await cancelOrder("9223372036854775807");
    await see(`${CANCEL} .outcome`, /^204[^]*\/9223372036854775807/);
    await cancelOrder("not/an 'id'");
    await see(`${CANCEL} .outcome`, /^404[^]*not%2Fan[^]*int64/);
    // Without an order id, nothing is sent.
    await page.locator(`${CANCEL} .send input`).fill(" ");
    await page.locator(`${CANCEL} .send button`).click();
    await see(`${CANCEL} .outcome`, /^Not sent\n+Which order/);
    expect(apiRequests()).toHaveLength(5);
    await list();
    const gone = ["1001", "9223372036854775807"];
    expect(await ids()).toStrictEqual(listed.filter((id) => !gone.includes(id)));
    // A newer list that has the order can cancel it.
    expect(await rowOf("1004").getByRole("button").count()).toBe(1);
    await press("Send: Look at the quota");
    await see("#getQuota .sent pre", /"plan":"business"/);
  });

  test("an order that is cancelled while a list is read stays cancelled in that list", async () => {
    const { page, see, list, rowOf, cancelIn, answerWith, hold } = await open();
    const body = ordersFrom(3);
    await answerWith({ body });
    await list(keys.pro);
    const release = await hold({ body });
    await page.locator(`${LIST} .send button`).click();
    await cancelIn(rowOf(idAt(1)));
    await rowOf(idAt(1)).getByText("Is gone").waitFor();
    await see(`${LIST} .orders .note`, /^2 orders/);
    release();
    await page.locator(`${LIST} .busy`).waitFor({ state: "hidden" });
    const buttons = [0, 1, 2].map((index) => rowOf(idAt(index)).getByRole("button").count());
    expect(await Promise.all(buttons)).toStrictEqual([1, 0, 1]);
  });

  test("of a long list, shows the total, finds an id, and offers a download instead of a part", async () => {
    const { page, see, press, list, answerWith } = await open();
    const long = ordersFrom(2_000);
    await answerWith({ body: long });
    await list();
    await see(`${LIST} .orders .note`, /^2,000 orders\. Here are the first 100/);
    expect(await page.locator(IDS).count()).toBe(100);
    await page.locator(LIST).getByLabel("Find an id").fill(idAt(1_999));
    expect(await page.locator(IDS).allTextContents()).toStrictEqual([idAt(1_999)]);
    await page.locator(LIST).getByText("As it was sent").click();
    const downloading = page.waitForEvent("download");
    await press("Download");
    expect(readFileSync(await (await downloading).path(), "utf8")).toBe(long);
    await list();
    expect(await page.locator(IDS).count()).toBe(100);
  });

  test("shows what the newest answer alone says, while it waits nothing, and sends a request once", async () => {
    const { page, text, see, list, answerWith, hold } = await open({}, { hasClock: true });
    await page.clock.pauseAt(Date.now() + 2 * HOUR_MS);
    const show = async (answer: (typeof ANSWERS)[number]) => {
      await answerWith(answer);
      await list();
      const parts = `${LIST} :is(.outcome, .wait, .orders, .sent):visible`;
      return (await page.locator(parts).allInnerTexts()).join("\n").replace(/\d+ ms/, "");
    };
    const shown: string[] = [];
    for (const answer of ANSWERS) shown.push(await show(answer));
    expect(new Set(shown).size).toBe(ANSWERS.length);
    // In the reverse order, each answer follows another one than before.
    for (const answer of ANSWERS.toReversed()) expect(await show(answer)).toBe(shown.pop());

    const release = await hold();
    const before = apiRequests().length;
    for (let clicks = 0; clicks < 3; clicks++) {
      await page.locator(`${LIST} .send button`).click({ force: true });
    }
    await see(`${LIST} .busy`, /^Sending …/);
    expect(await text(`${LIST} .outcome`)).toBe("");
    expect(await page.locator(`${LIST} .sent`).isVisible()).toBe(false);
    release();
    await see(STATUS, /^200/);
    expect(apiRequests()).toHaveLength(before + 1);
  });

  test("shows no limit, ban or countdown of a key after another key was entered", async () => {
    const { page, see, press, list, answerWith, hold } = await open();
    const windows = [
      { name: "minute", limit: 60, remaining: 0, resetsAt: "2100-01-01T00:00:00.000Z" },
    ];
    for (const [ban, title] of [
      [null, /^Limit reached/],
      [{}, /^Key banned/],
    ] as const) {
      const quota = { plan: "free", windows, ban, retryAfterSeconds: 3_000 };
      await answerWith({ body: JSON.stringify(quota) }, "**/v1/quota");
      await answerWith(ban === null ? LIMITED : BANNED);
      await list(keys.pro);
      await see("#wait", title);
      await see(`${MINUTE} .figure`, /^0 of 60$/);
      await see(`${LIST} .wait`, /^Send it again in 23:59:/);
      await page.locator("#key").fill("another");
      await page.locator("#wait").waitFor({ state: "hidden" });
      await page.locator(`${LIST} .wait`).waitFor({ state: "hidden" });
      await see(`${MINUTE} .figure`, /^–$/);
    }
    // The answer to a look at a former key comes late.
    const body = JSON.stringify({ plan: "free", windows, ban: null, retryAfterSeconds: 0 });
    const releaseLook = await hold({ body }, "**/v1/quota");
    const ended = ["requestfailed", "requestfinished"].map((event) =>
      page.waitForEvent(event as "requestfailed", (request) => request.url().endsWith("/quota")),
    );
    await page.locator("#key").fill(keys.pro);
    await page.locator("#key").fill("");
    releaseLook();
    await Promise.race(ended);
    await page.evaluate(() => new Promise((resolve) => void setTimeout(resolve, 50)));
    await see(`${MINUTE} .figure`, /^–$/);
    await page.locator("#key").fill(keys.pro);
    // The reader stops a slow list.
    const release = await hold();
    await page.locator(`${LIST} .send button`).click();
    await press("Stop", page.locator(LIST));
    await see(`${LIST} .outcome`, /^Stopped/);
    release();
  });

  test("on a phone, shows in its row that a cancellation failed, and the countdown of a wait or ban", async () => {
    const phone = { viewport: { width: 320, height: 568 }, hasTouch: true, isMobile: true };
    const { page, text, see, clear, list, cancelIn, answerWith } = await open(phone, {
      from: ELSEWHERE,
    });
    // Elsewhere, there are no hints for a local service.
    expect(await text("main")).not.toMatch(/npm start|Trigger a/);
    expect(await text("main")).toContain(`${ELSEWHERE}/v1`);
    await answerWith({ body: ordersFrom(60) });
    await list(keys.pro);
    await clear(STATUS);
    const row = page.locator(`${LIST} li`).nth(52);
    for (const [answer, note] of [
      [UNAUTHORIZED, "401: not cancelled"],
      [null, "No answer: perhaps cancelled"],
      [LIMITED, "429: not cancelled"],
    ] as const) {
      await answerWith(answer, `${ORDERS}/${idAt(52)}`);
      await cancelIn(row);
      await clear(row.getByText(note), row.getByRole("button"));
    }
    await answerWith(BANNED);
    await list();
    await see(`${LIST} .outcome`, /during the ban/);
    await see(`${LIST} .wait`, /23:5\d:\d\d/);
    await clear(STATUS, `${LIST} .wait`);
    await page.locator(`${LIST} label`, { hasText: "Go" }).click();
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
    await type(keys.pro);
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
    await page.locator(`${CANCEL} .send input`).focus();
    await type("1008\n");
    await see(":focus", /^Keep the order$/);
    await page.keyboard.press("Tab");
    await type("\n");
    await see(`${CANCEL} .outcome`, /^204/);
    await clear(`${CANCEL} .outcome`, ":focus");
  });

  test("is accessible in each state, light and dark, cuts nothing off at any width, and can be printed", async () => {
    const { page, list, clear, answerWith, cancelOrder } = await open({ colorScheme: "light" });
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
    await page.emulateMedia({ colorScheme: "light", forcedColors: "active" });
    // axe does not know the colours that the browser enforces.
    expect(await violations(page, ["wcag2a", "wcag21aa", "wcag22aa"])).toStrictEqual([]);
    await page.emulateMedia({ forcedColors: "none" });
    const links = await page.locator(".sections a").all();
    for (const width of [320, 768, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      await page.evaluate(() => scrollTo(0, 0));
      await clear(...links, "#key", MINUTE, DAY);
      expect(await page.evaluate(cutElements)).toStrictEqual([]);
    }
    const current = page.locator(".sections [aria-current]");
    for (const [id, title] of [
      ["limits", "Limits"],
      ["cancelOrder", "Cancel"],
    ]) {
      await page.evaluate((name) => (location.hash = name), id!);
      await expect.poll(() => current.allInnerTexts()).toStrictEqual([title]);
    }
    expect(await page.locator('pre:not([dir="ltr"])').count()).toBe(0);
    // On paper, each language and answer is shown.
    await page.emulateMedia({ media: "print" });
    expect(await page.locator(".tabs pre:not(:visible)").count()).toBe(0);
    expect(await page.locator("#key").isVisible()).toBe(false);
  });

  test("looks at the quota again when a window ends, by the service's clock", async () => {
    const { page, see, answerWith } = await open({}, { hasClock: true });
    const resetsAt = new Date(Date.now() + 30_000).toISOString();
    const windows = [{ name: "minute", limit: 60, remaining: 5, resetsAt }];
    const body = JSON.stringify({ plan: "free", windows, ban: null, retryAfterSeconds: 0 });
    const headers = { Date: new Date().toUTCString() };
    await answerWith({ headers, body }, "**/v1/quota");
    await page.locator("#key").fill(keys.free);
    await see(MINUTE, /5 of 60\s+back in 0:\d\d/);
    const looks = () => requests.filter((url) => url.endsWith("/v1/quota")).length;
    const before = looks();
    await page.clock.runFor(32_000);
    await expect.poll(looks, PATIENCE).toBeGreaterThan(before);
  });

  test("triggers a 429 and a ban, which look different, each with a countdown and an end", async () => {
    const { page, see, press } = await open({}, { hasClock: true });
    /** Expects a countdown, moves the clock to its end, and expects what the page shows then. */
    const countDown = async (title: string) => {
      await see("#wait", new RegExp(`^${title} [01]:\\d\\d`));
      await see("#limits .wait", /^Send it again in [01]:\d\d/);
      await page.clock.runFor(61_000);
      await see("#limits .wait", /^Send it again now/);
    };
    await page.locator("#key").fill(keys.free);
    await press("Trigger a 429");
    await see("#limits .outcome", /^429 Too Many Requests[^]*A window is full/);
    await see(MINUTE, /0 of 60/);
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
 * Opens the page in a new browser profile, and returns it with what a reader does there.
 *
 * @param hasClock whether the page has a clock that the test moves.
 * @param from the origin of the page in the browser, instead of the service's.
 */
async function open(options: BrowserContextOptions = {}, { hasClock = false, from = origin } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  context.setDefaultTimeout(PATIENCE.timeout);
  onTestFinished(async () => {
    // Ignores errors of routes whose request is still in flight when the test ends.
    await context.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
  });
  if (from !== origin) {
    await context.route(`${from}/**`, async (route) => {
      const url = route.request().url().replace(from, origin);
      await route.fulfill({ response: await route.fetch({ url }) });
    });
  }
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
  // The reader's clock is ahead of the service's.
  if (hasClock) await page.clock.install({ time: Date.now() + HOUR_MS });
  await page.goto(from);

  const fulfill = (route: Route, how: Answer | null) =>
    how === null ? route.abort() : route.fulfill({ contentType: "application/json", ...how });
  const text = (selector: string) => page.locator(selector).innerText();
  const press = (name: string, place: Page | Locator = page) =>
    place.getByRole("button", { name, exact: true }).click();
  return {
    page,
    text,
    press,
    rowOf: (id: string) => page.locator(`${LIST} li[data-id="${id}"]`),
    see: (selector: string, expected: RegExp) =>
      expect.poll(() => text(selector), { ...PATIENCE, message: selector }).toMatch(expected),
    /** Expects that elements are in the window, and that nothing covers their sides. */
    clear: async (...targets: readonly (string | Locator)[]) => {
      for (const target of targets) {
        const found = typeof target === "string" ? page.locator(target).first() : target;
        const about = { ...PATIENCE, message: String(target) };
        await expect.poll(() => found.evaluate(isClear), about).toBe(true);
      }
    },
    /** Answers requests to an address in place of the service; `null`: not at all. */
    answerWith: (how: Answer | null, url = ORDERS) =>
      page.route(url, (route) => fulfill(route, how)),
    /** Holds the answers to an address back until the returned function is called. */
    hold: async (how: Answer = WHOLE, url = ORDERS) => {
      const held = Promise.withResolvers<void>();
      await page.route(url, async (route) => {
        await held.promise;
        await fulfill(route, how).catch(() => {});
      });
      return held.resolve;
    },
    /** Lists the orders with a key, or with the key that is in the field. */
    list: async (key?: string) => {
      if (key !== undefined) await page.locator("#key").fill(key);
      await page.locator(`${LIST} .send button`).click();
      await page.locator(`${LIST} .busy`).waitFor({ state: "hidden" });
    },
    /** Presses the button that cancels an order in its row, and confirms. */
    cancelIn: async (row: Locator) => {
      await row.getByRole("button").click();
      await press("Cancel the order", page.getByRole("dialog"));
    },
    /** Cancels an order by the form, and confirms. */
    cancelOrder: async (id: string) => {
      await page.locator(`${CANCEL} .send input`).fill(id);
      await page.locator(`${CANCEL} .send button`).click();
      await press("Cancel the order", page.getByRole("dialog"));
    },
  };
}

/** Of these ids, `Number` makes one of each two neighbours. */
function idAt(index: number): string {
  return String(2n ** 53n + BigInt(index));
}

function ordersFrom(count: number): string {
  return `[${Array.from({ length: count }, (_, index) => `{"id":${idAt(index)}}`).join()}]`;
}

function apiRequests(): string[] {
  return requests.filter((url) => url.startsWith(`${origin}/v1/store`));
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
