import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, test, vi } from "vitest";
import * as databases from "../../../src/operator/database/database.ts";
import type { Plan } from "../../../src/rules/limits/plans.ts";
import { apiKeys, keyBans, keyUsage } from "../../../src/schema/keys.ts";
import { findChromium, launchChromium } from "../../site/chromium.ts";
import { violations } from "../../site/violations.ts";
import { OpenStore } from "../store-folder.ts";
import { tableCells } from "./keys-command.ts";

const NOW = new Date("2026-11-21T12:00:00.000Z");
/** Later than the clock of the database. */
const BAN_ENDS = new Date("2999-11-21T12:01:00.000Z");
const daysAgo = (days: number) => new Date(NOW.getTime() - days * 86_400_000);
const dayText = (days: number) => daysAgo(days).toISOString().slice(0, 10);
/** A key's name that runs a script or breaks the page if the page does not escape it. */
const HOSTILE = `</script><b>x</b><script>document.title = "taken over"</script><!--`;

const store = new OpenStore();
const many = new OpenStore();
const builder = databases.ormOver(async () => []);

function row(keyId: string, days: number, admitted: number, figures = {}) {
  const counts = { admitted, refused: 0, strikes: 0, bans: 0, peakMinute: 30, peakDay: 100 };
  const limits = { perMinute: 60, perDay: 1_000, reportedAt: daysAgo(days) };
  return { keyId, day: dayText(days), ...counts, ...limits, ...figures };
}

const key = (id: string, name: string, plan: Plan) => {
  const hashed = { hash: id, lastFour: "abcd", createdAt: daysAgo(40) };
  return builder.insert(apiKeys).values({ id, name, plan, ...hashed });
};

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  vi.spyOn(databases, "databaseTime").mockImplementation(async () => new Date());
  const ban = { number: 1, beganAt: NOW, endsAt: BAN_ENDS };
  const reported = [
    row("key_busy", 0, 40, { perMinute: 40, peakMinute: 38, refused: 5, strikes: 3 }),
    row("key_busy", 1, 1_000, { bans: 2, strikes: 120, refused: 250, peakDay: 1_100 }),
    row("key_busy", 6, 500),
    row("key_busy", 20, 7),
    row("key_small", 2, 9, { peakMinute: 3, peakDay: 9 }),
    row("key_gone", 0, 1),
  ];
  await (
    await store.database("keys")
  ).transaction([
    key("key_idle", "Idle", "business"),
    key("key_small", "Small", "free"),
    key("key_busy", HOSTILE, "pro"),
    ...reported.map((usage) => builder.insert(keyUsage).values(usage)),
    builder.insert(keyBans).values({ ...ban, keyId: "key_idle" }),
    builder.insert(keyBans).values({ ...ban, keyId: "key_small", liftedAt: NOW }),
  ]);
});
afterAll(async () => {
  vi.useRealTimers();
  await store.close();
  await many.close();
});

const usage = (...args: string[]) => store.keys("usage", ...args);
const usageJson = (...args: string[]) => store.keysJson("usage", ...args);
const rowsOf = async (...args: string[]) => tableCells((await usage(...args)).stdout).slice(1);

describe("keys usage", () => {
  it("prints a row for each key, the busiest first, bans in force, and how recent the figures are", async () => {
    expect(await rowsOf("--days", "7")).toEqual([
      ["key_busy", "1,540", "255", "2", "95 %", "100 %", HOSTILE],
      ["key_small", "9", "0", "0", "5 %", "1 %", "Small"],
      ["key_idle", "–", "–", "–", "–", "–", "Idle, banned until 2999-11-21 12:01 UTC"],
    ]);
    const { stderr } = await usage("--days", "7");
    expect(stderr).toContain("Reported until 2026-11-21 12:00 UTC; refused requests are a lower");
    expect(stderr).toContain("– means not reported yet");
  });

  it("prints a row for each day of one key, the newest first, for 14 days by default", async () => {
    const rows = await rowsOf("key_busy");
    expect(rows).toHaveLength(14);
    expect(rows.slice(0, 3)).toEqual([
      [dayText(0), "40", "5", "0", "95 %", "10 %"],
      [dayText(1), "1,000", "250", "2", "50 %", "100 %"],
      [dayText(2), "–", "–", "–", "–", "–"],
    ]);
    const idle = await usage("key_idle", "--days", "1");
    expect(tableCells(idle.stdout).slice(1)).toEqual([[dayText(0), "–", "–", "–", "–", "–"]]);
    expect(idle.stderr).toContain("Nothing was reported;");
  });

  it("prints JSON of the keys, with the days on which a key reported usage", async () => {
    const all = await usageJson("--days", "2");
    expect(all.map(({ id }: any) => id)).toEqual(["key_busy", "key_idle", "key_small"]);
    const { keyId: _, ...today } = row("key_busy", 0, 40, { perMinute: 40, peakMinute: 38 });
    expect(all[0]).toEqual({
      id: "key_busy",
      name: HOSTILE,
      plan: "pro",
      admitted: 1_040,
      refused: 255,
      strikes: 123,
      bans: 2,
      minutePeak: 0.95,
      dayPeak: 1,
      reportedAt: NOW.toISOString(),
      bannedUntil: null,
      days: [
        expect.objectContaining({ day: dayText(1), admitted: 1_000, perDay: 1_000 }),
        { ...today, refused: 5, strikes: 3, reportedAt: NOW.toISOString() },
      ],
    });
    const unknown = { admitted: null, refused: null, strikes: null, bans: null, minutePeak: null };
    const banned = { bannedUntil: BAN_ENDS.toISOString() };
    expect(all[1]).toMatchObject({ ...unknown, ...banned, reportedAt: null, days: [] });
    expect(all[2]).toMatchObject({ ...unknown, dayPeak: null, bannedUntil: null });
    expect(await usageJson("key_busy", "--days", "2")).toEqual([all[0]]);
  });

  it.each([
    ["1", 40],
    ["2", 1_040],
    ["20", 1_540],
    ["21", 1_547],
    ["366", 1_547],
  ])("counts %s days including today", async (days, admitted) => {
    expect((await usageJson("--days", days))[0].admitted).toBe(admitted);
    expect((await usageJson("key_busy", "--days", days))[0].admitted).toBe(admitted);
  });

  it("adds up more rows than one query returns, and sorts equal keys by refused requests", async () => {
    const database = await many.database("keys");
    const ids = Array.from({ length: 30 }, (_, index) => `key_${index}`);
    const rows = sql`INSERT INTO key_usage
      WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 365)
      SELECT id, date(${dayText(0)}, '-' || i || ' days'), 2, id = 'key_7', 0, 0, 1, 1, 60, 1000, 0
      FROM api_keys, n`;
    await database.transaction([...ids.map((id) => key(id, id, "free")), rows]);
    const keys: { id: string; admitted: number }[] = await many.keysJson("usage", "--days", "366");
    expect(keys.map(({ admitted }) => admitted)).toEqual(ids.map(() => 2 * 366));
    expect(keys[0]?.id).toBe("key_7");
  });

  it.each([
    ["the minute of today", ["--days", "1"], ["key_busy"]],
    ["the day of yesterday", ["key_busy", "--days", "2"], ["key_busy"]],
    ["one key far from its limits", ["key_small"], []],
    ["an unreported key", ["key_idle"], []],
  ])("--near looks at %s, and succeeds either way", async (_, args, expected) => {
    expect((await usageJson("--near", ...args)).map(({ id }: any) => id)).toEqual(expected);
    const { status, stderr } = await usage("--near", ...args);
    expect(status).toBe(0);
    expect(stderr.includes("known to have reached 80 % of a limit")).toBe(expected.length === 0);
  });
});

describe("keys usage --html", () => {
  const file = join(store.path, "usage.html");
  const write = async (...args: readonly string[]) =>
    expect(await usage(...args, "--html", file)).toMatchObject({ status: 0, stdout: "" });

  it("of one key shows its ban and nothing of others, and leaves unreported figures open", async () => {
    await write("key_idle", "--days", "1");
    const page = await readFile(file, "utf8");
    expect(page).toContain("<strong>Banned until 2999-11-21 12:01 UTC.</strong>");
    expect(page).toContain("days in UTC: admitted –, refused –, bans –");
    expect(page).not.toMatch(/key_busy|Near a limit/);
  });

  const chromium = findChromium();
  describe.skipIf(chromium === undefined)("in a browser", () => {
    let browser: Browser;
    let page: Page;
    let complaints: string[] = [];

    beforeAll(async () => {
      browser = await launchChromium(chromium ?? "");
      page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      page.on("console", (message) => complaints.push(message.text()));
      page.on("request", (request) => {
        if (!/^(file|data):/.test(request.url())) complaints.push(request.url());
      });
    });
    afterAll(() => browser?.close());

    async function rows(name: string): Promise<string[][]> {
      const found = await page.getByRole("table", { name }).locator("tbody tr").all();
      const texts = found.map((tr) => tr.locator("td, th").allTextContents());
      return (await Promise.all(texts)).map((cells) =>
        cells.map((text) => text.trim().replace(/\s+/g, " ")),
      );
    }

    test("it says who used how much, who was refused, banned or near a limit, by day", async () => {
      await write("--days", "7");
      await page.goto(`file://${file}`);
      const busy = [`${HOSTILE}key_busy, pro`, "1,540", "255", "2", "95 %", "100 %"];
      const idle = [expect.stringMatching(/^Idle.*Banned until /), "–", "–", "–", "–", "–"];
      const small = [expect.stringMatching(/^Small/), "9", "0", "0", "5 %", "1 %"];
      expect(await rows("Refused or banned")).toStrictEqual([busy, idle]);
      expect(await rows("Near a limit")).toStrictEqual([busy]);
      expect(await rows("All keys")).toStrictEqual([busy, small, idle]);
      const header = await page.locator("header").textContent();
      expect(header).toContain("UTC: admitted 1,549, refused 255, bans 2");
      expect(await page.title()).toBe("API usage, 2026-11-15 to 2026-11-21");
      expect(await page.locator("b, script").count()).toBe(0);
      const days = await rows("By day");
      expect(days[0]).toStrictEqual(["2026-11-21", "40", "5", "0", "95 %", "10 %"]);
      expect(days.map(([day]) => day)).toStrictEqual([0, 1, 2, 3, 4, 5, 6].map(dayText));
      expect(complaints).toStrictEqual([]);
    });

    test.each([[[]], [["key_busy"]]])("it is accessible and fits a phone: %j", async (args) => {
      await write(...args);
      await page.goto(`file://${file}`);
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 844 });
        expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme });
          expect(await violations(page)).toStrictEqual([]);
        }
      }
      expect(complaints).toStrictEqual([]);
    });
  });
});
