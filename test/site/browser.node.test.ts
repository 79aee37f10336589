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
const ELSEWHERE = "https://orders.example";
const ORDERS = "**/v1/store/orders";

const PHONE = { hasTouch: true, isMobile: true };

const STATUS = ".status-line b";
const MINUTE = '[data-window="minute"]';
const DAY = '[data-window="day"]';
const IDS = "#orders tbody td:first-child";
const SAMPLE = ".intro pre:visible";

interface OpenOptions extends BrowserContextOptions {
  /** True installs a fake clock in the page. */
  readonly hasClock?: boolean;
  /** The origin of the page in the browser. Default: the origin of the service. */
  readonly from?: string | undefined;
}

const QUOTA = {
  "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
  RateLimit: '"minute";r=9;t=60, "day";r=900;t=86399',
};
const WAIT = { ...QUOTA, "Retry-After": "86399" };

/** Answers that the console shows in different ways. */
const UNAUTHORIZED = { status: 401, body: '{"code":"unauthorized"}', headers: QUOTA };
const LIMITED = { status: 429, body: '{"code":"rate_limit_exceeded"}', headers: WAIT };
const BANNED = { status: 429, body: '{"code":"api_key_banned"}', headers: WAIT };
const ANSWERS = [
  { body: '[{"id":1}]', headers: { ...QUOTA, RateLimit: '"minute";r=0;t=1, "day";r=1000;t=9' } },
  { body: "[]", headers: QUOTA },
  { body: `[{"id":1}${" ".repeat(30_000)}]`, headers: QUOTA },
  UNAUTHORIZED,
  LIMITED,
  BANNED,
  { status: 503, body: '{"code":"service_unavailable","message":"Later."}', headers: QUOTA },
];

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
    const strange = requests.filter((url) => ![origin, ELSEWHERE].includes(new URL(url).origin));
    expect(strange).toStrictEqual([]);
  });

  test("shows the first call on the first screen, loads from one origin, and says whom to ask", async () => {
    const { page, text, clear } = await open();
    const { headers } = await fetch(origin);
    const policy = headers.get("Content-Security-Policy");
    expect(policy).toMatch(/^default-src 'none'; script-src 'self';(?!.*unsafe)/);
    expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
    expect(apiRequests()).toStrictEqual([]);
    const [call, answer] = await page.locator(SAMPLE).allInnerTexts();
    const line = `curl -i ${origin}/v1/store/orders \\\n  -H "Authorization: Bearer YOUR_API_KEY"`;
    expect(call).toBe(line);
    expect(answer).toMatch(/^HTTP\/1.1 200 OK\n[^]*\]$/);
    expect(await bottomOf(page.locator(SAMPLE).last())).toBeLessThan(900);
    const all = await text("main");
    for (const hint of ["npm start", "Trigger a ban", `${origin}/v1`]) expect(all).toContain(hint);
    const contacts = page.locator(`a[href="mailto:${CONTACT}"]`, { hasText: CONTACT });
    expect(await contacts.count()).toBe(2);
    const { info, servers } = await (await fetch(`${origin}/openapi.json`)).json();
    expect(servers[0].url).toBe(`${origin}/v1`);
    expect(info.contact).toStrictEqual({ email: CONTACT });
    // A link to the code of an error shows the error and its explanation.
    await page.goto(`${origin}/#order_already_shipped`);
    await clear("#order_already_shipped", "text=The order has shipped; it is unchanged.");
  });

  test("puts the pasted key into a sample that is copied, and shows it only while Show is on", async () => {
    const { page, text, see, press, clipboard } = await open();
    const intro = page.locator(".intro");
    await page.locator("#first-key").fill(` ${keys.pro} `);
    await intro.getByText("Python", { exact: true }).click();
    await see("#cancelOrder pre:visible >> nth=0", /urllib/);
    const placeholders = async () => new Set(await page.locator("[data-key]").allTextContents());
    for (const type of ["password", "text", "password"]) {
      const shown = type === "text" ? keys.pro : "YOUR_API_KEY";
      expect(await placeholders()).toStrictEqual(new Set([shown]));
      expect(await page.locator(`[data-key-field][type=${type}]`).count()).toBe(2);
      await press("Copy: First call (Python)");
      const sample = await text(`${SAMPLE} >> nth=0`);
      expect(await clipboard()).toBe(sample.replace("YOUR_API_KEY", keys.pro));
      expect((await text("main")).includes(keys.pro)).toBe(type === "text");
      await press("Show", intro);
    }
    // The console also has the pasted key, and lists the orders with this key.
    await press("List orders", intro);
    await see(STATUS, /^200/);
    await page.locator("#key").fill("");
    expect(await placeholders()).toStrictEqual(new Set(["YOUR_API_KEY"]));
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
      ["", /^401 Unauthorized[^]*No API key was sent/, /your address/, /of 60$/],
      ["sord_invented", /not an API key of this service/, /your address/, /of 60$/],
    ] as const) {
      await list(wrong);
      await see("#summary", sentence);
      await see("#meters-subject", subject);
      await see(`${MINUTE} .figure`, left);
    }
    expect(apiRequests()).toHaveLength(3);
    await see("#headers-sent", /WWW-Authenticate\n+Bearer/);
    await page.locator("#key").fill(`Bearer ${keys.enterprise}`);
    await press("Trigger a 429");
    await see("#progress", /\d+ requests admitted/);
    await see("#meters-subject", /^$/);
    await press("Stop");
    await see("#summary", /^Stopped/);
    await answerWith(null);
    await list();
    await see("#summary", /^No answer\n[^]*No complete answer came/);
    expect(await page.locator(IDS).count()).toBe(count);
  });

  test("shows its text, and its tabs work, without JavaScript", async () => {
    const { page, see } = await open({ javaScriptEnabled: false });
    await page.locator(".intro").getByText("Go", { exact: true }).click();
    await see(`${SAMPLE} >> nth=0`, /^package main/);
    await page.locator("#cancelOrder label", { hasText: "409" }).click();
    await see("#cancelOrder pre:visible >> nth=-1", /^HTTP\/1.1 409 [^]*"order_already_shipped"/);
    await see("main", /The console needs JavaScript/);
    expect(await page.locator("button:visible, #first-key:visible").count()).toBe(0);
  });

  test("lists and cancels orders with every digit, and shows what is left of the limits", async () => {
    const { page, text, see, clear, press, list, cancelIn, rowOf, clipboard } = await open();
    const ids = () => page.locator(IDS).allTextContents();
    await list(keys.business);
    const listed = await ids();
    expect(listed).toHaveLength(10);
    expect([listed[0], listed[9]]).toEqual(["-9223372036854775808", "9223372036854775807"]);
    await see(".status-line", /^200 OK\s[^]* ms$/);
    await see("#body", /"id":9223372036854775807,/);
    await see("#headers-sent", /X-RateLimit-Remaining\n+999/);
    await see(`${DAY} .figure`, /^99,999 of 100,000$/);
    await see(`${MINUTE} .figure`, /^999 of 1,000$/);
    await list();
    await see(`${MINUTE} .figure`, /^998 of/);
    // The whole table of orders is visible, with the body of the response beside it.
    const scroll = page.locator("#orders .scroll");
    expect(await scroll.evaluate((box) => box.scrollWidth - box.clientWidth)).toBe(0);
    await clear("#body");
    await press("Copy body");
    expect(await clipboard()).toBe(await text("#body"));
    await press("Copy as curl");
    const sent = `-H 'Authorization: Bearer ${keys.business}' '${origin}/v1/store/orders'`;
    expect(await clipboard()).toBe(`curl -i ${sent}`);

    // The row of a cancelled order stays, and shows a note.
    await press("Cancel order 1001");
    await press("Keep it");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(apiRequests()).toHaveLength(2);
    await cancelIn(rowOf("1001"));
    await see(STATUS, /^204/);
    await see("#orders-note", /^9 orders/);
    expect(await rowOf("1001").getByRole("button").count()).toBe(0);
    await cancelIn(rowOf("1004"));
    await rowOf("1004").getByText("Has shipped").waitFor();
    for (const [id, answer] of [
      ["1001", /order_not_found/],
      ["9223372036854775807", /^$/],
      ["not/an 'id'", /int64/],
    ] as const) {
      await page.getByRole("textbox", { name: "orderId" }).fill(id);
      await cancelIn(page.locator("#cancel"));
      await see(".status-line", new RegExp(`DELETE .*${encodeURIComponent(id)}`));
      await see("#body", answer);
    }
    await rowOf("1001").getByText("Is gone").waitFor();
    // Without an order id, nothing is sent, and everything stays.
    await page.locator("#order-id").fill(" ");
    await page.locator("#cancel button").click();
    await see("#order-id-note", /^Which order/);
    await see("#answer", /int64/);
    await see("#orders-note", /^8 orders/);
    expect(apiRequests()).toHaveLength(7);
    await list();
    const gone = ["1001", "9223372036854775807"];
    expect(await ids()).toStrictEqual(listed.filter((id) => !gone.includes(id)));
  });

  test("of a long list, shows the total, finds an id, and offers a download instead of a part", async () => {
    const { page, see, press, list, answerWith } = await open();
    await answerWith({ body: "[]" });
    await list();
    await see("#summary", /The store has no orders/);
    expect(await page.getByLabel("Find an id").isVisible()).toBe(false);
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

  test("shows what the newest answer alone says, whatever was shown before", async () => {
    const { page, see } = await open({ hasClock: true });
    await page.clock.pauseAt(Date.now() + 60_000);
    // Each answer follows each other one, and itself.
    const order = ANSWERS.flatMap((_, first) => [
      first,
      ...ANSWERS.flatMap((__, other) => (other > first ? [other, first] : [])),
      first,
    ]);
    const shown = await page.evaluate(showInTurn, { answers: ANSWERS, order });
    for (const [step, html] of shown.entries()) {
      const index = order[step] ?? 0;
      expect(html, `${order[step - 1]}, then ${index}`).toBe(shown[order.indexOf(index)]);
    }
    expect(new Set(shown).size).toBe(ANSWERS.length);
    // A button that was pressed twice has its own words again, not "Copied".
    for (let presses = 0; presses < 2; presses++) {
      await page.locator("#copy-curl").click();
      await see("#copy-curl", /^Copied$/);
    }
    await page.clock.runFor(2_000);
    await see("#copy-curl", /^Copy as curl$/);
  });

  test("sends a request once, and after a newer outcome shows no late answer", async () => {
    const { page, text, see, list, cancelIn, rowOf } = await open();
    const row = rowOf("1005");
    await list(keys.business);
    let release = () => {};
    const isReleased = new Promise<void>((resolve) => (release = resolve));
    await page.route(ORDERS, async (route) => {
      await isReleased;
      await route.fulfill({ contentType: "application/json", body: "[]" }).catch(() => {});
    });
    const button = page.locator("#list [type=submit]");
    for (const [sent, key, status, note] of [
      [2, "sord_…", /^Not sent/, "Not sent"],
      [3, keys.business, /^204/, "Cancelled"],
    ] as const) {
      await page.locator("#key").fill(keys.business);
      for (let clicks = 0; clicks < 3; clicks++) await button.click({ force: true });
      await see("#progress", /^Listing/);
      expect(await button.getAttribute("aria-disabled")).toBe("true");
      // The browser reports a request a moment after the page shows it.
      await expect.poll(() => apiRequests().length).toBe(sent);
      await page.locator("#key").fill(key);
      await cancelIn(row);
      await see(STATUS, status);
      await row.getByText(note).waitFor();
      expect(await row.evaluate((found) => found.contains(document.activeElement))).toBe(true);
    }
    const outcome = async () => (await text("#results")).replaceAll(/\d+ s\b/g, "");
    const before = await outcome();
    release();
    await page.waitForTimeout(100);
    expect(await outcome()).toBe(before);
    // Three lists and the cancellation that was sent.
    expect(apiRequests()).toHaveLength(4);
  });

  test.each([
    { width: 390, height: 844, from: ELSEWHERE },
    { width: 320, height: 568, from: undefined },
  ])(
    "$width px wide, shows in its row that a cancellation failed, and the countdown",
    async (on) => {
      const { from, ...viewport } = on;
      const { page, text, see, clear, list, cancelIn, answerWith } = await open({
        from,
        viewport,
        ...PHONE,
      });
      if (from !== undefined) {
        // Elsewhere, there are no hints for a local service.
        expect(await text("main")).not.toMatch(/npm start|Trigger a ban/);
        expect(await text("main")).toContain(`${from}/v1`);
        expect(await bottomOf(page.locator("#first-key"))).toBeLessThan(844);
      }
      await answerWith({ body: ordersFrom(60), headers: QUOTA });
      await list(keys.pro);
      await clear(STATUS, ...(from === undefined ? [] : ["#order-id", IDS]));
      expect(await page.locator("#body").evaluate(brokenNumbers)).toStrictEqual([]);
      const row = page.locator("#orders tbody tr").nth(52);
      const url = `${ORDERS}/${idAt(52)}`;
      for (const [answer, note] of [
        [UNAUTHORIZED, "401: not cancelled"],
        [null, "No answer: perhaps cancelled"],
        [LIMITED, "429: not cancelled"],
      ] as const) {
        await answerWith(answer, url);
        await cancelIn(row);
        await clear(row.getByText(note), row.getByRole("button"));
      }
      await clear("#wait-time");
      await page.getByRole("link", { name: "Try it" }).click();
      await page.locator("#key").focus();
      await clear("#try-title", "#key", "label[for=key]", "label[for=order-id]");
      // The outcome of the form is on the screen, and so is a wait or a ban when it begins.
      await answerWith({ status: 404, body: '{"code":"order_not_found"}' }, url);
      await page.locator("#order-id").fill(idAt(52));
      await cancelIn(page.locator("#cancel"));
      await see(STATUS, /^404/);
      await clear(STATUS);
      // A newer list that has the order can cancel it.
      expect(await row.getByRole("button").count()).toBe(0);
      await answerWith({ body: ordersFrom(60), headers: QUOTA });
      await list();
      expect(await row.getByRole("button").count()).toBe(1);
      for (const [answer, button, title] of [
        [LIMITED, "#trigger-limit", /^Limit reached/],
        [BANNED, "#list [type=submit]", /^Key banned/],
      ] as const) {
        await answerWith(answer);
        await page.locator(button).click();
        await see("#wait-title", title);
        await clear("#wait-time", "#wait-meaning");
      }
      await page.locator("#listOrders label", { hasText: "Go" }).click();
      await page.locator("#cancelOrder label", { hasText: "503" }).click();
      expect(await page.evaluate(cutElements)).toStrictEqual([]);
    },
  );

  test("can be used by keyboard alone, with the focus always visible", async () => {
    const { page, see, clear } = await open();
    const dialog = page.getByRole("dialog");
    const type = (text: string) => page.keyboard.type(text);
    const focused = () => page.evaluate(describeFocus);
    const tabTo = async (name: string) => {
      for (let stops = 0; (await focused()).name !== name; stops++) {
        expect(stops).toBeLessThan(30);
        await page.keyboard.press("Tab");
        expect((await focused()).hasOutline).toBe(true);
      }
    };
    await tabTo("Skip to the content");
    await type("\n");
    await tabTo("first-key");
    await type(keys.pro);
    await tabTo("first-language");
    await page.keyboard.press("ArrowRight");
    await see(`${SAMPLE} >> nth=0`, /createClient/);
    // A reader who followed a link to the console starts in the field `#key`.
    await page.locator("#key").focus();
    await type("\n");
    await see(STATUS, /^200/);
    await clear(":focus");
    await tabTo("order-id");
    await type("1002\n");
    await dialog.waitFor();
    expect(await focused()).toStrictEqual({ name: "Keep it", hasOutline: true });
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    expect((await focused()).name).toBe("order-id");
    await type("\n");
    await dialog.waitFor();
    await page.keyboard.press("Tab");
    await type("\n");
    await see(STATUS, /^204/);
    await clear(":focus");
  });

  test("is accessible in light and dark mode, cuts nothing off at any width, and can be printed", async () => {
    const { page, clear, list } = await open({ colorScheme: "light" });
    await list(keys.business);
    const style = async (selector: string, name: string) => {
      const found = page.locator(selector).first();
      return found.evaluate(
        (one, property) => getComputedStyle(one).getPropertyValue(property),
        name,
      );
    };
    for (const [colorScheme, ground, ...checked] of [
      [
        "light",
        "rgb(255, 255, 255)",
        ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"],
      ],
      // Skips code, whose colours stay the same.
      ["dark", "rgb(15, 18, 24)", ["color-contrast"], [".code"]],
    ] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await style("body", "background-color")).toBe(ground);
      expect(await violations(page, ...checked)).toStrictEqual([]);
    }
    const links = await page.locator(".top nav a").all();
    expect(links).toHaveLength(10);
    await atEveryWidth(page, async () => {
      await clear(...links);
      expect(await page.evaluate(cutElements)).toStrictEqual([]);
      // The name and the content begin at one line, and the key field is above the sample.
      const parts = [".brand", "h1", "#first-key", ".intro .aside"].map((one) => page.locator(one));
      const boxes = parts.map((part) => part.boundingBox());
      const [brand, title, key, sample] = await Promise.all(boxes);
      expect(brand?.x).toBe(title?.x);
      expect(key?.y).toBeLessThan((sample?.y ?? 0) + (sample?.height ?? 0));
    });
    // On paper, each language and answer is named and shown.
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    const hidden = page.locator(".tabs pre:not(:visible)");
    expect(await hidden.count()).toBe(0);
    expect(await page.locator("#first-key").isVisible()).toBe(false);
    expect(await style("body", "background-color")).toBe("rgb(255, 255, 255)");
    const [tab, other] = [":checked", ":not(:checked)"].map((of) => `.tabs > label:has(${of})`);
    for (const one of [tab, other]) expect(await style(one ?? "", "color")).toBe("rgb(0, 0, 0)");
    await page.emulateMedia({ media: "screen", forcedColors: "active" });
    for (const [property, one = "", another = ""] of [
      ["background-color", `${MINUTE} .fill`, `${MINUTE} .track`],
      ["border-bottom-color", tab, other],
    ] as const) {
      expect(await style(one, property)).not.toBe(await style(another, property));
    }
  });

  test("triggers a 429 and a ban, which look different, each with a countdown and an end", async () => {
    const { page, text, see, clear, press } = await open({ hasClock: true });
    const ground = () =>
      page.locator("#wait").evaluate((box) => getComputedStyle(box).backgroundColor);
    /** Expects a countdown, moves the clock to its end, and expects the words of its end. */
    const countDown = async (title: string, over: string) => {
      await see("#wait", new RegExp(`^${title}\n+[01]:\\d\\d`));
      await atEveryWidth(page, async () => {
        await page.locator("#wait").scrollIntoViewIfNeeded();
        await clear("#wait-title", "#wait-time", "#wait-meaning");
      });
      // The summary does not repeat the seconds of the countdown.
      await see("#summary", /^(?![^]*Wait \d)/);
      await see("#headers-sent", /^Retry-After\n+\d/);
      const before = await text("#wait-time");
      await page.clock.runFor(5_000);
      expect(await text("#wait-time")).not.toBe(before);
      await page.clock.runFor(60_000);
      await see("#wait", new RegExp(`^${over}\n+0:00`));
    };
    await page.locator("#key").fill(keys.free);
    const changes = await page.evaluateHandle(countAnnouncements);
    await press("Trigger a 429");
    await page.locator("#wait").waitFor();
    expect(await changes.evaluate(({ count }) => count)).toBeLessThanOrEqual(2);
    await see(STATUS, /^429 Too Many Requests$/);
    await see(MINUTE, /0 of 60/);
    await see(DAY, /940 of 1,000/);
    const limitColour = await ground();
    await countDown("Limit reached", "The wait is over");
    await see(MINUTE, /60 of 60[^]*full again/);
    await press("Trigger a ban");
    await press("Have it banned");
    await page.locator("#key").fill("another");
    await see("#progress", /Refusals are free for 10 seconds/);
    await page.clock.runFor(10_000);
    await page.locator("#wait.ban").waitFor();
    expect(await ground()).not.toBe(limitColour);
    await see("#body", /api_key_banned/);
    await see(DAY, /– of 1,000[^]*nothing until the ban ends/);
    await countDown("Key banned", "The ban is over");
    for (const meter of [MINUTE, DAY]) await see(meter, /– of [^]*known after the next answer/);
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
      expect.poll(() => text(selector), { timeout: 10_000, message: selector }).toMatch(expected),
    /** Expects that elements are in the window, and that nothing covers their sides. */
    clear: async (...targets: readonly (string | Locator)[]) => {
      for (const target of targets) {
        const found = typeof target === "string" ? page.locator(target).first() : target;
        const about = { timeout: 5_000, message: String(target) };
        await expect.poll(() => found.evaluate(isClear), about).toBe(true);
      }
    },
    /** Answers requests to an address in place of the service; `null`: not at all. */
    answerWith: async (answer: Parameters<Route["fulfill"]>[0] | null, url = ORDERS) => {
      await page.unroute(url);
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

/** Lets the console receive answers in this order. Returns what it shows after each. */
async function showInTurn({ answers, order }: { answers: typeof ANSWERS; order: number[] }) {
  const find = (id: string) => document.getElementById(id) as HTMLElement;
  const nextTask = () =>
    new Promise<unknown>((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = resolve;
      port2.postMessage(0);
    });
  const shown: string[] = [];
  for (const index of order) {
    const { body, ...init } = answers[index]!;
    window.fetch = async () => new Response(body, init);
    (find("list") as HTMLFormElement).requestSubmit();
    while (!find("busy").hidden) await nextTask();
    const parts = ["meters", "meters-subject", "wait", "summary", "answer"].map(find);
    const html = parts.map((part) => (part.hidden ? "" : part.outerHTML)).join("\n");
    shown.push(html.replace(/<span>\d+ ms<\/span>/, ""));
  }
  return shown;
}

/** Counts how often the page changes what a screen reader reads out by itself. */
function countAnnouncements(): { count: number } {
  const changes = { count: 0 };
  const observer = new MutationObserver(() => (changes.count += 1));
  for (const region of document.querySelectorAll("[aria-live], [role=status], [role=alert]")) {
    observer.observe(region, { subtree: true, childList: true, characterData: true });
  }
  return changes;
}

/** Lists the numbers of an element that are broken over lines. */
function brokenNumbers(found: Element): string[] {
  return Array.from(found.childNodes).flatMap((node) =>
    [...(node.textContent ?? "").matchAll(/\d+/g)].flatMap(({ 0: digits, index }) => {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + digits.length);
      return range.getClientRects().length > 1 ? [digits] : [];
    }),
  );
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

function bottomOf(element: Locator): Promise<number> {
  return element.evaluate((found) => found.getBoundingClientRect().bottom);
}

/** Describes the focused element. Playwright runs this function in the page. */
function describeFocus(): { name: string; hasOutline: boolean } {
  const active = document.activeElement ?? document.body;
  // The outline of a radio button is on its tab, because the radio button is invisible.
  const shown = active instanceof HTMLInputElement ? (active.closest("label") ?? active) : active;
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
