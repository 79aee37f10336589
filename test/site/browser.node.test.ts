import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Locator, Page, Route } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { StoreFolder } from "../operator/store-folder.ts";
import { copyProject, Service } from "../process/service.ts";
import { needs } from "../support/needs.ts";
import { PATIENCE } from "../support/patience.ts";
import { findChromium, launchChromium } from "./chromium.ts";
import { violations } from "./violations.ts";

const chromium = findChromium();

/** The operator's address, which the service shows to callers. */
const CONTACT = "orders@shop.example";
const ELSEWHERE = "https://orders.example";
const ORDERS = "**/v1/store/orders";

const STATUS = ".status-line b";
const MINUTE = '[data-window="minute"]';
const DAY = '[data-window="day"]';
const IDS = "#orders tbody td:first-child";
const SAMPLE = ".intro pre:visible";

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
const WAIT = { ...QUOTA, "Retry-After": "86399" };

const LIST = { body: "[]", headers: QUOTA };
const UNAUTHORIZED = { status: 401, body: '{"code":"unauthorized"}', headers: QUOTA };
const LIMITED = { status: 429, body: '{"code":"rate_limit_exceeded"}', headers: WAIT };
const BANNED = { status: 429, body: '{"code":"api_key_banned"}', headers: WAIT };
/** Answers that the console shows in different ways. */
const ANSWERS = [LIST, LIMITED, UNAUTHORIZED, BANNED];

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
    const strange = requests.filter((url) => ![origin, ELSEWHERE].includes(new URL(url).origin));
    expect(strange).toStrictEqual([]);
  });

  test("shows the first call, which copies with the key; hides the key and stores it nowhere", async () => {
    const { page, text, see, press, clear, clipboard } = await open();
    const policy = (await fetch(origin)).headers.get("Content-Security-Policy");
    expect(policy).toMatch(/^default-src 'none'; script-src 'self';(?!.*unsafe)/);
    expect(apiRequests()).toStrictEqual([]);
    const [call, answer] = await page.locator(SAMPLE).allInnerTexts();
    const line = `curl -i ${origin}/v1/store/orders \\\n  -H "Authorization: Bearer YOUR_API_KEY"`;
    expect(call).toBe(line);
    expect(answer).toMatch(/^HTTP\/1.1 200 OK\n[^]*\]$/);
    await clear(SAMPLE);
    expect(await text("main")).toContain("Trigger a ban");
    const contacts = page.locator(`a[href="mailto:${CONTACT}"]`, { hasText: CONTACT });
    expect(await contacts.count()).toBe(2);

    const intro = page.locator(".intro");
    await page.locator("#first-key").fill(` ${keys.pro} `);
    for (const isShown of [false, true, false]) {
      const type = isShown ? "text" : "password";
      expect(await page.locator(`[data-key-field][type=${type}]`).count()).toBe(2);
      expect((await text("main")).includes(keys.pro)).toBe(isShown);
      await press("Copy: First call (curl)");
      expect(await clipboard()).toBe(line.replace("YOUR_API_KEY", keys.pro));
      await press("Show", intro);
    }
    await press("List orders", intro);
    await see(STATUS, /^200/);
    const stored = () => ({ ...localStorage, ...sessionStorage, cookie: document.cookie });
    expect(await page.evaluate(stored)).toStrictEqual({ cookie: "" });
  });

  test("says what is wrong with a key, keeps the list, and says whose limits it shows", async () => {
    const { page, see, press, list, answerWith } = await open();
    await list(keys.enterprise);
    const count = await page.locator(IDS).count();
    expect(count).toBeGreaterThan(5);
    for (const [wrong, sentence, subject, left] of [
      ["sord_…", /^Not sent\n+This is no API key/, /^$/, /^4,999 of 5,000$/],
      // Without a valid key, the console shows the limits of the client's IP address.
      ["sord_invented", /not an API key of this service/, /your address/, /of 60$/],
    ] as const) {
      await list(wrong);
      await see("#summary", sentence);
      await see("#meters-subject", subject);
      await see(`${MINUTE} .figure`, left);
    }
    expect(apiRequests()).toHaveLength(2);
    await page.locator("#key").fill(keys.enterprise);
    await press("Trigger a 429");
    await see("#progress", /\d+ requests admitted/);
    await see("#meters-subject", /^$/);
    await press("Stop");
    await see("#summary", /^Stopped/);
    await answerWith({ body: '[{"id":1}' });
    await list();
    await see("#summary", /The list broke off/);
    expect(await page.locator(IDS).count()).toBe(count);
  });

  test("shows its text, and its tabs work, without JavaScript", async () => {
    const { page, see } = await open({ javaScriptEnabled: false });
    await page.locator(".intro").getByText("Go", { exact: true }).click();
    await see(`${SAMPLE} >> nth=0`, /^package main/);
    await see("main", /The console needs JavaScript/);
    expect(await page.locator("button:visible, #first-key:visible").count()).toBe(0);
  });

  test("lists and cancels orders with every digit, and shows what is left of the limits", async () => {
    const { page, see, press, list, cancelIn, rowOf, clipboard } = await open();
    const ids = () => page.locator(IDS).allTextContents();
    await list(keys.business);
    const listed = await ids();
    expect(listed).toHaveLength(10);
    expect([listed[0], listed[9]]).toEqual(["-9223372036854775808", "9223372036854775807"]);
    await see("#headers-sent", /X-RateLimit-Remaining\n+999/);
    await see(`${DAY} .figure`, /^99,999 of 100,000$/);
    await see(`${MINUTE} .figure`, /^999 of 1,000$/);
    await see("#body", /"id":9223372036854775807,/);
    await press("Copy as curl");
    const sent = `-H 'Authorization: Bearer ${keys.business}' '${origin}/v1/store/orders'`;
    expect(await clipboard()).toBe(`curl -i ${sent}`);

    // The row of a cancelled order stays, and shows a note.
    await cancelIn(rowOf("1001"));
    await see("#orders-note", /^9 orders/);
    expect(await rowOf("1001").getByRole("button").count()).toBe(0);
    await press("Cancel order 1004");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(apiRequests()).toHaveLength(2);
    await cancelIn(rowOf("1004"));
    await rowOf("1004").getByText("Has shipped").waitFor();
    for (const [id, answer] of [
      ["9223372036854775807", /^$/],
      ["not/an 'id'", /int64/],
    ] as const) {
      await page.getByRole("textbox", { name: "orderId" }).fill(id);
      await cancelIn(page.locator("#cancel"));
      await see(".status-line", new RegExp(`DELETE .*${encodeURIComponent(id)}`));
      await see("#body", answer);
    }
    // Without an order id, nothing is sent.
    await page.locator("#order-id").fill(" ");
    await page.locator("#cancel button").click();
    await see("#order-id-note", /^Which order/);
    expect(apiRequests()).toHaveLength(5);
    await list();
    const gone = ["1001", "9223372036854775807"];
    expect(await ids()).toStrictEqual(listed.filter((id) => !gone.includes(id)));
    // A newer list that has the order can cancel it.
    expect(await rowOf("1004").getByRole("button").count()).toBe(1);
  });

  test("of a long list, shows the total, finds an id, and offers a download instead of a part", async () => {
    const { page, see, press, list, answerWith } = await open();
    const long = ordersFrom(2_000);
    await answerWith({ body: long });
    await list();
    await see("#orders-note", /^2,000 orders\. The table shows the first 100/);
    expect(await page.locator(IDS).count()).toBe(100);
    await page.getByLabel("Find an id").fill(idAt(1_999));
    expect(await page.locator(IDS).allTextContents()).toStrictEqual([idAt(1_999)]);
    expect(await page.getByRole("button", { name: "Copy body" }).isVisible()).toBe(false);
    const downloading = page.waitForEvent("download");
    await press("Download");
    expect(readFileSync(await (await downloading).path(), "utf8")).toBe(long);
  });

  test("shows what the newest answer alone says, sends a request once, and shows no late answer", async () => {
    const { page, text, see, list, cancelIn, rowOf, answerWith } = await open({ hasClock: true });
    await page.clock.pauseAt(Date.now() + 60_000);
    const show = async (answer: (typeof ANSWERS)[number]) => {
      await answerWith(answer);
      await list();
      const parts = ":is(#meters, #meters-subject, #wait, #summary, #answer):visible";
      return (await page.locator(parts).allInnerTexts()).join("\n").replace(/\d+ ms/, "");
    };
    const shown: string[] = [];
    for (const answer of ANSWERS) shown.push(await show(answer));
    expect(new Set(shown).size).toBe(ANSWERS.length);
    // In the reverse order, each answer follows another one than before.
    for (const answer of ANSWERS.toReversed()) expect(await show(answer)).toBe(shown.pop());

    let release = () => {};
    const isReleased = new Promise<void>((resolve) => (release = resolve));
    await page.unroute(ORDERS);
    await list(keys.business);
    await page.route(ORDERS, async (route) => {
      await isReleased;
      await route.fulfill({ contentType: "application/json", body: "[]" }).catch(() => {});
    });
    const before = apiRequests().length;
    for (let clicks = 0; clicks < 3; clicks++) {
      await page.locator("#list [type=submit]").click({ force: true });
    }
    await see("#progress", /^Listing/);
    await cancelIn(rowOf("1005"));
    await see(STATUS, /^204/);
    const outcome = await text("#results");
    release();
    await page.waitForTimeout(100);
    expect(await text("#results")).toBe(outcome);
    expect(apiRequests()).toHaveLength(before + 2);
  });

  test("on a phone, shows in its row that a cancellation failed, and the countdown of a wait or ban", async () => {
    const phone = { viewport: { width: 320, height: 568 }, hasTouch: true, isMobile: true };
    const { page, text, see, clear, list, cancelIn, answerWith } = await open({
      from: ELSEWHERE,
      ...phone,
    });
    // Elsewhere, there are no hints for a local service.
    expect(await text("main")).not.toMatch(/npm start|Trigger a ban/);
    expect(await text("main")).toContain(`${ELSEWHERE}/v1`);
    await answerWith({ body: ordersFrom(60), headers: QUOTA });
    await list(keys.pro);
    await clear(STATUS);
    const row = page.locator("#orders tbody tr").nth(52);
    for (const [answer, note] of [
      [UNAUTHORIZED, "401: not cancelled"],
      [null, "No answer: perhaps cancelled"],
      [LIMITED, "429: not cancelled"],
    ] as const) {
      await answerWith(answer, `${ORDERS}/${idAt(52)}`);
      await cancelIn(row);
      await clear(row.getByText(note), row.getByRole("button"));
    }
    await clear("#wait-time");
    await see("#wait-time", /^23:5\d:\d\d$/);
    await answerWith(BANNED);
    await page.locator("#list [type=submit]").click();
    await see("#wait-title", /^Key banned/);
    await clear("#wait-time", "#wait-meaning");
    await page.locator("#listOrders label", { hasText: "Go" }).click();
    await page.locator("#cancelOrder label", { hasText: "503" }).click();
    expect(await page.evaluate(cutElements)).toStrictEqual([]);
  });

  test("can be used by keyboard alone", async () => {
    const { page, see, clear } = await open();
    const type = (text: string) => page.keyboard.type(text);
    const tabTo = async (selector: string) => {
      const isThere = () => page.locator(`${selector}:focus`).count();
      for (let stops = 0; (await isThere()) === 0; stops++) {
        expect(stops).toBeLessThan(30);
        await page.keyboard.press("Tab");
      }
    };
    await tabTo(".skip");
    await type("\n");
    await tabTo("#first-key");
    await type(keys.pro);
    await tabTo("[name=first-language]");
    await page.keyboard.press("ArrowRight");
    await see(`${SAMPLE} >> nth=0`, /createClient/);
    // A reader who followed a link to the console starts in the field `#key`.
    await page.locator("#key").focus();
    await type("\n");
    await see(STATUS, /^200/);
    await clear(":focus");
    await tabTo("#order-id");
    await type("1002\n");
    await see(":focus", /^Keep it$/);
    await page.keyboard.press("Tab");
    await type("\n");
    await see(STATUS, /^204/);
    await clear(":focus");
  });

  test("is accessible in light and dark mode, cuts nothing off at any width, and can be printed", async () => {
    const { page, list, clear } = await open({ colorScheme: "light" });
    await list(keys.pro);
    expect(await violations(page)).toStrictEqual([]);
    await page.emulateMedia({ colorScheme: "dark" });
    // Skips code, whose colours stay the same.
    expect(await violations(page, ["color-contrast"], [".code"])).toStrictEqual([]);
    const links = await page.locator(".top nav a").all();
    for (const width of [320, 768, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      await clear(...links);
      expect(await page.evaluate(cutElements)).toStrictEqual([]);
    }
    // On paper, each language and answer is shown.
    await page.emulateMedia({ media: "print" });
    expect(await page.locator(".tabs pre:not(:visible)").count()).toBe(0);
    expect(await page.locator("#first-key").isVisible()).toBe(false);
  });

  test("triggers a 429 and a ban, which look different, each with a countdown and an end", async () => {
    const { page, text, see, press } = await open({ hasClock: true });
    /** Expects a countdown, moves the clock to its end, and expects the words of its end. */
    const countDown = async (title: string, over: string) => {
      await see("#wait", new RegExp(`^${title}\n+[01]:\\d\\d`));
      const before = await text("#wait-time");
      await page.clock.runFor(5_000);
      expect(await text("#wait-time")).not.toBe(before);
      await page.clock.runFor(60_000);
      await see("#wait", new RegExp(`^${over}\n+0:00`));
    };
    await page.locator("#key").fill(keys.free);
    await press("Trigger a 429");
    await page.locator("#wait.limit").waitFor();
    await see(STATUS, /^429 Too Many Requests$/);
    await see(MINUTE, /0 of 60/);
    await see(DAY, /940 of 1,000/);
    await countDown("Limit reached", "The wait is over");
    await see(MINUTE, /60 of 60[^]*full again/);
    await press("Trigger a ban");
    await press("Have it banned");
    await page.locator("#key").fill("another");
    await see("#progress", /Refusals are free for 10 seconds/);
    await page.clock.runFor(10_000);
    await page.locator("#wait.ban").waitFor();
    await see("#body", /api_key_banned/);
    await see(DAY, /– of 1,000[^]*nothing until the ban ends/);
    await countDown("Key banned", "The ban is over");
    await see(MINUTE, /– of [^]*known after the next answer/);
  });
});

/** Opens the page in a new browser profile, and returns it with what a reader does there. */
async function open({ hasClock = false, from, ...options }: OpenOptions = {}) {
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
  if (from !== undefined) {
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
  if (hasClock) await page.clock.install();
  await page.goto(from ?? origin);

  const text = (selector: string) => page.locator(selector).innerText();
  const press = (name: string, place: Page | Locator = page) =>
    place.getByRole("button", { name, exact: true }).click();
  return {
    page,
    text,
    press,
    rowOf: (id: string) => page.locator(`tr:has(> :text-is('${id}'))`),
    clipboard: () => page.evaluate(() => navigator.clipboard.readText()),
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
    answerWith: async (answer: Parameters<Route["fulfill"]>[0] | null, url = ORDERS) => {
      const json = { contentType: "application/json", ...answer };
      await page.route(url, (route) => (answer === null ? route.abort() : route.fulfill(json)));
    },
    /** Lists the orders with a key, or with the key that is in the field. */
    list: async (key?: string) => {
      if (key !== undefined) await page.locator("#key").fill(key);
      await page.locator("#list [type=submit]").click();
      await page.locator("#busy").waitFor({ state: "hidden" });
    },
    /** Presses the button that cancels an order, in its row or in the form, and confirms. */
    cancelIn: async (place: Locator) => {
      await place.getByRole("button").click();
      await press("Cancel order", page.getByRole("dialog"));
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
  return requests.filter((url) => url.startsWith(`${origin}/v1`));
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
