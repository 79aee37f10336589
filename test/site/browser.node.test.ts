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
    expect(await bottomOf(visible.last())).toBeLessThan(900);
    expect(await visible.last().innerText()).toMatch(/^HTTP\/1.1 200 OK\n[^]*\]$/);
    const text = await textOf(page, "main");
    for (const hint of ["npm start", "Trigger a ban", `${origin}/v1`]) expect(text).toContain(hint);
    const contacts = await page.getByRole("link", { name: CONTACT }).all();
    const addresses = contacts.map((link) => link.getAttribute("href"));
    expect(await Promise.all(addresses)).toStrictEqual(Array(2).fill(`mailto:${CONTACT}`));
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
    const placeholders = async () => new Set(await page.locator("[data-key]").allTextContents());
    for (const [text, type] of [
      ["YOUR_API_KEY", "password"],
      [key, "text"],
      ["YOUR_API_KEY", "password"],
    ] as const) {
      expect(await placeholders()).toStrictEqual(new Set([text]));
      for (const field of await page.locator("[data-key-field]").all()) {
        expect(await field.getAttribute("type")).toBe(type);
      }
      await page.getByRole("button", { name: "Copy: First call (Python)" }).click();
      expect(await clipboard(page)).toBe((await sample.innerText()).replace("YOUR_API_KEY", key));
      expect((await textOf(page, "main")).includes(key)).toBe(type === "text");
      await page.locator(".intro").getByRole("button", { name: "Show" }).click();
    }
    // The console also has the pasted key, and lists the orders with this key.
    await page.locator(".intro").getByRole("button", { name: "List orders" }).click();
    await expectText(page, STATUS, /^200/);
    await page.locator("#key").fill("");
    expect(await placeholders()).toStrictEqual(new Set(["YOUR_API_KEY"]));
    expect(await page.evaluate(() => ({ ...localStorage, ...sessionStorage }))).toStrictEqual({});
  });

  test("says what is wrong with a key, keeps the list, and says whose limits it shows", async () => {
    const page = await open();
    const rows = page.locator("#orders tbody tr");
    await listOrders(page, keys["enterprise"]);
    const count = await rows.count();
    expect(count).toBeGreaterThan(5);
    for (const text of ["sord_…", `sord_\u200b${keys["enterprise"]?.slice(5)}`]) {
      await listOrders(page, text);
      await expectText(page, "#summary", /^Not sent\n+This is no API key/);
      await expectText(page, `${MINUTE} .figure`, /^4,999 of 5,000$/);
    }
    expect(apiRequests()).toHaveLength(1);
    // Without a valid key, the console shows the limits of the client's IP address.
    for (const [wrong, sentence] of [
      ["", /^401 Unauthorized[^]*No API key was sent/],
      ["sord_invented", /not an API key of this service/],
    ] as const) {
      await listOrders(page, wrong);
      await expectText(page, "#summary", sentence);
      expect(await textOf(page, "#meters-subject")).toContain("your address");
      expect(await textOf(page, "#headers-sent")).toMatch(/WWW-Authenticate\n+Bearer/);
    }
    await page.locator("#key").fill(`Bearer ${keys["enterprise"]}`);
    await page.getByRole("button", { name: "Trigger a 429" }).click();
    await expectText(page, "#progress", /\d+ requests admitted/);
    expect(await textOf(page, "#meters-subject")).toBe("");
    await page.getByRole("button", { name: "Stop" }).click();
    await expectText(page, "#summary", /^Stopped/);
    await page.context().setOffline(true);
    await listOrders(page);
    await expectText(page, "#summary", /^No answer\n[^]*No complete answer came/);
    expect(await rows.count()).toBe(count);
  });

  test("shows its text, and its tabs work, without JavaScript", async () => {
    const page = await open({ javaScriptEnabled: false });
    await page.locator(".intro").getByText("Go", { exact: true }).click();
    expect(await page.locator(".intro pre:visible").first().innerText()).toContain("package main");
    await page.locator("#cancelOrder label", { hasText: "409" }).click();
    expect(await page.locator("#cancelOrder pre:visible").last().innerText()).toMatch(
      /^HTTP\/1.1 409 Conflict[^]*"order_already_shipped"/,
    );
    expect(await page.locator("button:visible, #first-key:visible").count()).toBe(0);
    expect(await page.getByText("The console needs JavaScript").isVisible()).toBe(true);
  });

  test("lists and cancels orders with every digit, and shows what is left of the limits", async () => {
    const page = await open();
    await listOrders(page, keys["business"]);
    expect(await textOf(page, ".status-line")).toMatch(/^200 OK\s[^]* ms$/);
    const ids = page.locator("#orders tbody td:first-child");
    const listed = await ids.allTextContents();
    expect(listed).toHaveLength(10);
    expect([listed[0], listed[9]]).toEqual(["-9223372036854775808", "9223372036854775807"]);
    expect(await textOf(page, "#body")).toContain('"id":9223372036854775807,');
    expect(await textOf(page, `${MINUTE} .figure`)).toBe("999 of 1,000");
    expect(await textOf(page, `${DAY} .figure`)).toBe("99,999 of 100,000");
    expect(await textOf(page, "#headers-sent")).toMatch(/X-RateLimit-Remaining\n+999/);
    await listOrders(page);
    await expectText(page, `${MINUTE} .figure`, /^998 of/);
    // The whole table of orders is visible, with the body of the response beside it.
    const scroll = page.locator("#orders .scroll");
    expect(await scroll.evaluate((box) => box.scrollWidth - box.clientWidth)).toBe(0);
    expect(await isClear(page.locator("#body"))).toBe(true);
    await page.getByRole("button", { name: "Copy body" }).click();
    expect(await clipboard(page)).toBe(await page.locator("#body").textContent());
    await page.getByRole("button", { name: "Copy as curl" }).click();
    expect(await clipboard(page)).toBe(
      `curl -i -H 'Authorization: Bearer ${keys["business"]}' '${origin}/v1/store/orders'`,
    );

    // The row of a cancelled order stays, and shows a note.
    const rowOf = (id: string) => page.locator(`tr:has(> :text-is('${id}'))`);
    await rowOf("1001").getByRole("button").click();
    await page.getByRole("button", { name: "Keep it" }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(apiRequests()).toHaveLength(2);
    await cancelIn(rowOf("1001"));
    await expectText(page, STATUS, /^204/);
    await rowOf("1001").getByText("Cancelled").waitFor();
    expect(await rowOf("1001").getByRole("button").count()).toBe(0);
    await expectText(page, "#orders-note", /^9 orders/);
    await cancelIn(rowOf("1004"));
    await rowOf("1004").getByText("Has shipped").waitFor();
    const field = page.getByRole("textbox", { name: "orderId" });
    for (const [id, answer] of [
      ["1001", /order_not_found/],
      ["9223372036854775807", /^$/],
      ["not/an 'id'", /int64/],
    ] as const) {
      await field.fill(id);
      await cancelIn(page.locator("#cancel"));
      await expectText(page, ".status-line", new RegExp(`DELETE .*${encodeURIComponent(id)}`));
      await expectText(page, "#body", answer);
    }
    await page.getByRole("button", { name: "Copy as curl" }).click();
    expect(await clipboard(page)).toMatch(/ 'http[^ ]*not%2Fan%20'\\''id'\\'''$/);
    await rowOf("1001").getByText("Is gone").waitFor();
    await rowOf("9223372036854775807").getByText("Cancelled").waitFor();

    // Without an order id, nothing is sent, and everything stays.
    await field.fill(" ");
    await page.locator("#cancel button").click();
    await expectText(page, "#order-id-note", /^Which order/);
    for (const part of ["#answer", "#orders"]) {
      expect(await page.locator(part).isVisible()).toBe(true);
    }
    expect(apiRequests()).toHaveLength(7);
    await listOrders(page);
    await expectText(page, "#orders-note", /^8 orders/);
    const gone = ["1001", "9223372036854775807"];
    expect(await ids.allTextContents()).toStrictEqual(listed.filter((id) => !gone.includes(id)));
  });

  test("of a long list, shows the total, finds an id, and offers a download instead of a part", async () => {
    const page = await open();
    const first = 2n ** 53n;
    const rows = Array.from({ length: 2_000 }, (_, index) => `{"id":${first + BigInt(index)}}`);
    const long = `[${rows.join()}]`;
    await answerWith(page, { body: long });
    await listOrders(page);
    const ids = page.locator("#orders tbody td:first-child");
    for (const [search, note, found] of [
      ["", /^2,000 orders\. The table shows the first 100/, 100],
      [String(first + 1_999n), /^2,000 orders\.$/, 1],
      [String(first + 2_000n), /^No order in this list has this id/, 0],
    ] as const) {
      await page.getByLabel("Find an id").fill(search);
      await expectText(page, "#orders-note", note);
      expect(await ids.count()).toBe(found);
      if (found === 1) expect(await ids.textContent()).toBe(search);
    }
    expect(await page.getByRole("button", { name: "Copy body" }).isVisible()).toBe(false);
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    expect(readFileSync(await (await downloading).path(), "utf8")).toBe(long);
    await answerWith(page, { body: "[]" });
    await listOrders(page);
    await expectText(page, "#summary", /The store has no orders/);
    expect(await page.getByLabel("Find an id").isVisible()).toBe(false);
  });

  test("shows what the newest answer alone says, whatever was shown before", async () => {
    const page = await open({ hasClock: true });
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
      await expectText(page, "#copy-curl", /^Copied$/);
      await clipboard(page);
    }
    await page.clock.runFor(2_000);
    expect(await textOf(page, "#copy-curl")).toBe("Copy as curl");
  });

  test.each([
    ["a cancellation", "1005", /^204/, "Cancelled"],
    ["a key that is none", "1006", /^Not sent/, "Not sent"],
  ])("sends a request once, and after %s shows no late answer", async (what, id, status, note) => {
    const page = await open();
    await listOrders(page, keys["business"]);
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
    expect(apiRequests()).toHaveLength(2);
    if (what === "a key that is none") await page.locator("#key").fill("sord_…");
    const row = page.locator(`tr:has(> :text-is('${id}'))`);
    await cancelIn(row);
    await expectText(page, STATUS, status);
    expect(await row.locator("td").last().innerText()).toMatch(new RegExp(`^${note}`));
    expect(await row.evaluate((found) => found.contains(document.activeElement))).toBe(true);
    const figure = await textOf(page, `${MINUTE} .figure`);
    release();
    await page.waitForTimeout(100);
    expect(await textOf(page, STATUS)).toMatch(status);
    expect(await textOf(page, `${MINUTE} .figure`)).toBe(figure);
    expect(await page.locator("#orders tbody tr").count()).toBeGreaterThan(5);
  });

  test.each([390, 320])(
    "%d px wide, shows in its row that a cancellation failed, and the countdown",
    async (width) => {
      const page = await open({ ...PHONE, viewport: { width, height: width === 320 ? 568 : 844 } });
      const clear = async (...selectors: string[]) => {
        for (const one of selectors) expect(await isClear(page.locator(one)), one).toBe(true);
      };
      // Of these ids, `Number` makes one of each two neighbours.
      const idAt = (index: number) => 2n ** 53n + BigInt(index);
      const rows = Array.from({ length: 60 }, (_, index) => `{"id":${idAt(index)},"quantity":1}`);
      await answerWith(page, { body: `[${rows.join()}]`, headers: QUOTA });
      await listOrders(page, keys["business"]);
      await clear(STATUS);
      expect(await page.locator("#body").evaluate(brokenNumbers)).toStrictEqual([]);
      const row = page.locator("#orders tbody tr").nth(52);
      const url = `**/v1/store/orders/${idAt(52)}`;
      for (const [answer, note] of [
        [ANSWERS[3], "401: not cancelled"],
        [null, "No answer: perhaps cancelled"],
        [ANSWERS[4], "429: not cancelled"],
      ] as const) {
        await answerWith(page, answer ?? null, url);
        await cancelIn(row);
        const shown = row.getByText(note);
        await shown.waitFor();
        expect(await isClear(shown)).toBe(true);
        expect(await row.getByRole("button").isVisible()).toBe(true);
      }
      await clear("#wait-time");
      await page.getByRole("link", { name: "Try it" }).click();
      await page.locator("#key").focus();
      await clear("#try-title", "#key");
      for (const label of ["API key", "orderId"]) {
        expect(await page.locator(`#controls label:text-is("${label}")`).isVisible()).toBe(true);
      }
      // The outcome of the form is on the screen, and so is a wait or a ban when it begins.
      await answerWith(page, { status: 404, body: '{"code":"order_not_found"}' }, url);
      await page.locator("#order-id").fill(String(idAt(52)));
      await cancelIn(page.locator("#cancel"));
      await expectText(page, STATUS, /^404/);
      await clear(STATUS);
      await answerWith(page, { ...ANSWERS[4] });
      await page.getByRole("button", { name: "Trigger a 429" }).click();
      await expectText(page, "#wait-title", /^Limit reached/);
      await clear("#wait-time", "#wait-meaning");
      await answerWith(page, { ...ANSWERS[5] });
      await listOrders(page);
      await expectText(page, "#wait-title", /^Key banned/);
      await clear("#wait-time", "#wait-meaning");
    },
  );

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
    for (const key of ["Enter", "Tab", "Enter"]) await press(key);
    await expectText(page, STATUS, /^204/);
    expect(await isClear(page.locator(":focus"))).toBe(true);
  });

  test("is accessible in light and dark mode, cuts nothing off at any width, and can be printed", async () => {
    const page = await open({ colorScheme: "light" });
    await listOrders(page, keys["business"]);
    const style = (selector: string, name: "color" | "backgroundColor" | "borderBottomColor") =>
      page
        .locator(selector)
        .first()
        .evaluate((found, property) => getComputedStyle(found)[property], name);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      const ground = colorScheme === "dark" ? "rgb(15, 18, 24)" : "rgb(255, 255, 255)";
      expect(await style("body", "backgroundColor")).toBe(ground);
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
      expect(await cutElements(page)).toStrictEqual([]);
      // The name and the content begin at one line, and the key field is above the sample.
      const [brand, title, key, sample] = await Promise.all(
        [".brand", "h1", "#first-key", ".intro .aside"].map((one) =>
          page.locator(one).boundingBox(),
        ),
      );
      expect(brand?.x).toBe(title?.x);
      expect(key?.y).toBeLessThan((sample?.y ?? 0) + (sample?.height ?? 0));
    });
    // An underline would hide the underscores of an error code.
    const codes = page.locator("a:has(code)");
    expect(await codes.count()).toBeGreaterThan(9);
    const lines = codes.evaluateAll((all) =>
      all.map((a) => getComputedStyle(a).textDecorationLine),
    );
    expect(new Set(await lines)).toStrictEqual(new Set(["none"]));

    // On paper, each language and answer is named and shown.
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    const panes = page.locator(".tabs > div pre");
    expect(await panes.count()).toBe(await page.locator(".tabs > div pre:visible").count());
    expect(await style("body", "backgroundColor")).toBe("rgb(255, 255, 255)");
    for (const state of [":checked", ":not(:checked)"]) {
      expect(await style(`.tabs > label:has(${state})`, "color")).toBe("rgb(0, 0, 0)");
    }
    expect(await page.locator("#first-key").isVisible()).toBe(false);
    await page.emulateMedia({ media: "screen", forcedColors: "active" });
    const track = await style(`${MINUTE} .track`, "backgroundColor");
    expect(await style(`${MINUTE} .fill`, "backgroundColor")).not.toBe(track);
    const other = await style(".tabs > label:has(:not(:checked))", "borderBottomColor");
    expect(await style(".tabs > label:has(:checked)", "borderBottomColor")).not.toBe(other);
  });

  test("elsewhere, has no hints for a local service; fits a phone, and shows the answer", async () => {
    const from = "https://orders.example";
    const page = await open({ ...PHONE, from });
    const text = await textOf(page, "main");
    expect(text).not.toMatch(/npm start|Trigger a ban/);
    expect(text).toContain(`${from}/v1`);
    expect(await bottomOf(page.locator("#first-key"))).toBeLessThan(844);
    await listOrders(page, keys["pro"]);
    for (const one of [STATUS, "#orders tbody td", "#order-id"]) {
      await expect.poll(() => isClear(page.locator(one).first()), { timeout: 5_000 }).toBe(true);
    }
    await page.locator("#listOrders label", { hasText: "Go" }).click();
    await page.locator("#cancelOrder label", { hasText: "503" }).click();
    expect(await cutElements(page)).toStrictEqual([]);
    requests = requests.filter((url) => !url.startsWith(`${from}/`));
  });

  test("triggers a 429 and a ban, which look different, each with a countdown and an end", async () => {
    const page = await open({ hasClock: true });
    const ground = () =>
      page.locator("#wait").evaluate((box) => getComputedStyle(box).backgroundColor);
    const secondsLeft = async () => {
      const [minutes, seconds] = (await textOf(page, "#wait-time")).split(":");
      return 60 * Number(minutes) + Number(seconds);
    };
    /** Expects a countdown, moves the clock to its end, and expects the words of its end. */
    const countDown = async (title: string, over: string) => {
      await expectText(page, "#wait", new RegExp(`^${title}\n+[01]:\\d\\d`));
      await atEveryWidth(page, async () => {
        await page.locator("#wait").scrollIntoViewIfNeeded();
        for (const line of ["title", "time", "meaning"]) {
          expect(await isClear(page.locator(`#wait-${line}`))).toBe(true);
        }
      });
      // The summary does not repeat the seconds of the countdown.
      expect(await textOf(page, "#summary")).not.toMatch(/Wait \d+ seconds/);
      expect(await textOf(page, "#headers-sent")).toMatch(/^Retry-After\n+\d/);
      const before = await secondsLeft();
      await page.clock.runFor(5_000);
      expect(before - (await secondsLeft())).toBeGreaterThanOrEqual(4);
      await page.clock.runFor(60_000);
      await expectText(page, "#wait", new RegExp(`^${over}\n+0:00`));
    };
    await page.locator("#key").fill(keys["free"] ?? "");
    const changes = await page.evaluateHandle(countAnnouncements);
    await page.getByRole("button", { name: "Trigger a 429" }).click();
    await page.locator("#wait").waitFor();
    expect(await changes.evaluate(({ count }) => count)).toBeLessThanOrEqual(2);
    expect(await textOf(page, STATUS)).toBe("429 Too Many Requests");
    expect(await textOf(page, MINUTE)).toContain("0 of 60");
    expect(await textOf(page, DAY)).toContain("940 of 1,000");
    const limitColour = await ground();
    await countDown("Limit reached", "The wait is over");
    expect(await textOf(page, MINUTE)).toMatch(/60 of 60[^]*full again/);

    await page.getByRole("button", { name: "Trigger a ban" }).click();
    await page.getByRole("button", { name: "Have it banned" }).click();
    await page.locator("#key").fill("another");
    await expectText(page, "#progress", /Refusals are free for 10 seconds/);
    await page.clock.runFor(10_000);
    await page.locator("#wait.ban").waitFor();
    expect(await ground()).not.toBe(limitColour);
    expect(await textOf(page, "#body")).toContain("api_key_banned");
    expect(await textOf(page, DAY)).toMatch(/– of 1,000[^]*nothing until the ban ends/);
    await countDown("Key banned", "The ban is over");
    for (const meter of [MINUTE, DAY]) {
      expect(await textOf(page, meter)).toMatch(/– of [\d,]+[^]*known after the next answer/);
    }
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
  return [...found.childNodes].flatMap((node) =>
    [...(node.textContent ?? "").matchAll(/\d+/g)].flatMap(({ 0: digits, index }) => {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + digits.length);
      return range.getClientRects().length > 1 ? [digits] : [];
    }),
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

/** Presses the button that cancels an order, in its row or in the form, and confirms. */
async function cancelIn(place: Locator): Promise<void> {
  await place.getByRole("button").click();
  const dialog = place.page().getByRole("dialog");
  await dialog.getByRole("button", { name: "Cancel order" }).click();
}

function textOf(page: Page, selector: string): Promise<string> {
  return page.locator(selector).innerText();
}

async function expectText(page: Page, selector: string, expected: RegExp): Promise<void> {
  await expect.poll(() => textOf(page, selector), { timeout: 10_000 }).toMatch(expected);
}

function bottomOf(element: Locator): Promise<number> {
  return element.evaluate((found) => found.getBoundingClientRect().bottom);
}

function clipboard(page: Page): Promise<string> {
  return page.evaluate(() => navigator.clipboard.readText());
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

/** Lists the elements beyond the window's right edge, except inside SVG and boxes that scroll. */
function cutElements(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    [document.documentElement, ...document.querySelectorAll("main *")]
      .filter((element) => {
        const { right, width } = element.getBoundingClientRect();
        const isScrolled = element.closest("svg, pre, table, .unseen") !== null;
        return width > 0 && right > innerWidth && !isScrolled;
      })
      .map((element) => `${element.tagName}.${element.className}`),
  );
}
