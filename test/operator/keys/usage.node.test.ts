import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import * as databases from "../../../src/operator/database/database.ts";
import { apiKeys, keyBans, keyUsage } from "../../../src/schema/keys.ts";
import type { Plan } from "../../../src/rules/limits/plans.ts";
import { OpenStore } from "../store-folder.ts";
import { tableCells } from "./keys-command.ts";

const DAY_MS = 86_400_000;
const NOW = new Date("2026-11-21T12:00:00.000Z");
const inAnHour = new Date(NOW.getTime() + 3_600_000).toISOString();
const shown = (time: string) => `${time.slice(0, 16).replace("T", " ")} UTC`;
const daysAgo = (days: number) => new Date(NOW.getTime() - days * DAY_MS);
const dayText = (days: number) => daysAgo(days).toISOString().slice(0, 10);

const store = new OpenStore();
const fresh = new OpenStore();
const page = join(store.path, "usage.html");

const builder = databases.ormOver(async () => []);

function row(keyId: string, days: number, admitted: number, figures = {}) {
  const counts = { admitted, refused: 0, strikes: 0, bans: 0, peakMinute: 30, peakDay: 100 };
  const limits = { perMinute: 60, perDay: 1_000, reportedAt: daysAgo(days) };
  return { keyId, day: dayText(days), ...counts, ...limits, ...figures };
}

const key = (id: string, name: string, plan: Plan) => {
  return builder
    .insert(apiKeys)
    .values({ id, name, plan, hash: id, lastFour: "abcd", createdAt: daysAgo(40) });
};

beforeAll(async () => {
  vi.stubEnv("COLUMNS", "200");
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  vi.spyOn(databases, "databaseTime").mockImplementation(async () => new Date());
  const database = await store.database("keys");
  await database.transaction([
    key("key_idle", "Idle", "business"),
    key("key_small", "Small", "free"),
    key("key_busy", "Busy & <b>", "pro"),
    ...[
      row("key_busy", 0, 40, { perMinute: 40, peakMinute: 38, refused: 5, strikes: 3 }),
      row("key_busy", 1, 1_000, { bans: 2, strikes: 120, refused: 250, peakDay: 1_100 }),
      row("key_busy", 6, 500),
      row("key_busy", 20, 7),
      row("key_small", 2, 9, { peakMinute: 3, peakDay: 9 }),
      row("key_gone", 0, 1),
    ].map((reported) => builder.insert(keyUsage).values(reported)),
  ]);
  const empty = await fresh.database("keys");
  await empty.transaction([key("key_new", "New", "free")]);
});
afterAll(async () => {
  vi.useRealTimers();
  await store.close();
  await fresh.close();
});

const usage = (...args: string[]) => store.keys("usage", ...args);
const usageJson = (...args: string[]) => store.keysJson("usage", ...args);
const rowsOf = async (...args: string[]) => tableCells((await usage(...args)).stdout).slice(1);
/** Returns the first two cells of each row in the tables of a page. */
const cellsOf = (html: string) =>
  [...html.matchAll(/<th scope="row">([^<]*)[^]*?<\/th>\s*<td[^>]*>\s*(\S+)\s/g)].map(
    ([, heading, cell]) => [heading, cell],
  );

describe("keys usage", () => {
  it("prints a row for each key, the busiest first", async () => {
    const { status, stdout } = await usage("--days", "7");
    expect(status).toBe(0);
    const [, ...rows] = tableCells(stdout);
    expect(rows).toEqual([
      ["key_busy", "Busy & <b>", "pro", "1,540", "255", "123", "2", "95 %", "100 %"],
      ["key_small", "Small", "free", "9", "0", "0", "0", "5 %", "1 %"],
      ["key_idle", "Idle", "business", "–", "–", "–", "–"],
    ]);
    const range = `From ${dayText(6)} to ${dayText(0)}`;
    expect(stdout).toContain(`${range}, as reported until ${shown(NOW.toISOString())};`);
    expect(stdout).toContain(`–: nothing was reported. A key in use reports by ${shown(inAnHour)}`);
  });

  it("says that a day has no report, and by when a key reports", async () => {
    const { stdout } = await usage("key_idle", "--days", "2");
    expect(tableCells(stdout).slice(1)).toEqual([
      [dayText(1), "–", "–", "–", "–"],
      [dayText(0), "–", "–", "–", "–"],
    ]);
    expect(stdout).toContain(
      `Nothing was reported from ${dayText(1)} to ${dayText(0)}.\n–: nothing was reported. A key in use reports by ${shown(inAnHour)}.`,
    );
    const expected = ["9", "–", "–"];
    const rows = await rowsOf("key_small", "--days", "3");
    expect(rows.map(([, admitted]) => admitted)).toEqual(expected);
    await usageJson("key_small", "--days", "3", "--html", page);
    expect(cellsOf(await readFile(page, "utf8")).toReversed()).toEqual(
      expected.map((admitted, index) => [dayText(2 - index), admitted]),
    );
  });

  it("prints a row for each day of one key, for 14 days by default", async () => {
    const { stdout } = await usage("key_busy");
    const [, ...rows] = tableCells(stdout);
    expect(rows).toHaveLength(14);
    expect(rows.slice(-2)).toEqual([
      [dayText(1), "1,000", "250", "120", "2", "30 of 60", "1,100 of 1,000"],
      [dayText(0), "40", "5", "3", "0", "38 of 40", "100 of 1,000"],
    ]);
    expect(rows[0]).toEqual([dayText(13), "–", "–", "–", "–"]);
  });

  it("prints JSON of the keys, with the days on which a key reported usage", async () => {
    const all = await usageJson("--days", "2");
    expect(all.map(({ id }: any) => id)).toEqual(["key_busy", "key_idle", "key_small"]);
    const { keyId: _, ...today } = row("key_busy", 0, 40, { perMinute: 40, peakMinute: 38 });
    expect(all[0]).toEqual({
      id: "key_busy",
      name: "Busy & <b>",
      plan: "pro",
      admitted: 1_040,
      refused: 255,
      strikes: 123,
      bans: 2,
      minutePeak: 0.95,
      dayPeak: 1,
      reportedAt: NOW.toISOString(),
      completeBy: inAnHour,
      bannedUntil: null,
      days: [
        expect.objectContaining({ day: dayText(1), admitted: 1_000, perDay: 1_000 }),
        { ...today, refused: 5, strikes: 3, reportedAt: NOW.toISOString() },
      ],
    });
    expect(all[1]).toMatchObject({ admitted: null, reportedAt: null, days: [] });
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

  it("adds up more rows than one query returns", async () => {
    const many = new OpenStore();
    const database = await many.database("keys");
    const ids = Array.from({ length: 30 }, (_, index) => `key_${index}`);
    const rows = sql`INSERT INTO key_usage
      WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 365)
      SELECT id, date(${dayText(0)}, '-' || i || ' days'), 2, id = 'key_7', 0, 0, 1, 1, 60, 1000, 0
      FROM api_keys, n`;
    await database.transaction([...ids.map((id) => key(id, id, "free")), rows]);
    const keys: { id: string; admitted: number }[] = await many.keysJson("usage", "--days", "366");
    await many.close();
    expect(keys.map(({ admitted }) => admitted)).toEqual(ids.map(() => 2 * 366));
    // All keys have equally many admitted requests, so the key with refused requests is first.
    expect(keys[0]?.id).toBe("key_7");
  });

  it.each([[[]], [["key_new"]]])(
    "shows figures that nobody reported as unknown: %j",
    async (args) => {
      const [json] = await fresh.keysJson("usage", ...args, "--html", page);
      const unknown = { admitted: null, refused: null, strikes: null, bans: null };
      expect(json).toMatchObject({ ...unknown, minutePeak: null, dayPeak: null });
      const html = await readFile(page, "utf8");
      const tiles = [...html.matchAll(/<dd>(.*?)<small/g)].map(([, figure]) => figure);
      expect(tiles).toStrictEqual(["–", "–", "–", "–"]);
      expect(html).toContain(`A key in use reports by ${shown(inAnHour)}`);
      const figures = cellsOf(html).filter(([day]) => day === dayText(0));
      expect(figures).toHaveLength(1);
      expect(new Set(figures.map(([, figure]) => figure))).toStrictEqual(new Set(["–"]));
    },
  );
});

describe("keys usage --near", () => {
  it("shows keys at this share of a limit in two days, and exits with status 3", async () => {
    const { status, stdout, stderr } = await usage("--near", "80");
    expect({ status, stderr }).toEqual({ status: 3, stderr: "" });
    expect(stdout).toContain(`From ${dayText(1)} to ${dayText(0)}, as reported`);
    expect(tableCells(stdout).map(([id]) => id)).toEqual(["id", "key_busy"]);
    expect(await usage("--near", "80", "--html", page)).toMatchObject({ status: 3 });
  });

  it.each([
    ["the minute of today", ["--near", "95", "--days", "1"], ["key_busy"]],
    ["80 % of it by default, before another option", ["--near", "--days", "1"], ["key_busy"]],
    ["just below it", ["--near", "96", "--days", "1"], []],
    ["the day of yesterday", ["--near", "100"], ["key_busy"]],
    ["earlier days", ["--near", "5", "--days", "3"], ["key_busy", "key_small"]],
    ["one key", ["key_small", "--near", "5", "--days", "3"], ["key_small"]],
    ["one key far from its limits", ["key_idle", "--near", "1"], []],
  ])("looks at %s", async (_, args, expected) => {
    const { status, stdout } = await usage(...args, "--json");
    const ids = JSON.parse(stdout).map(({ id }: { id: string }) => id);
    expect({ ids, status }).toEqual({ ids: expected, status: expected.length > 0 ? 3 : 0 });
  });

  it("says that no key is known to be near its limit, and what is known", async () => {
    const none = "No key is known to have reached 80 % of a limit.\n";
    const outcome = await usage("key_small", "--near", "80", "--days", "3");
    expect(outcome).toMatchObject({ status: 0, stderr: "" });
    expect(outcome.stdout).toContain(`${none}From ${dayText(2)} to ${dayText(0)}, as reported`);
    const silent = await fresh.keys("usage", "--near", "80");
    expect(silent).toMatchObject({ status: 0, stderr: "" });
    expect(silent.stdout).toContain(`${none}Nothing was reported from ${dayText(1)}`);
  });
});

describe("a ban that is not in a usage report yet", () => {
  const endsAt = new Date(NOW.getTime() + 60_000);
  const until = endsAt.toISOString();

  beforeAll(async () => {
    const database = await store.database("keys");
    const before = (ms: number) => ({ number: 1, endsAt, beganAt: new Date(NOW.getTime() - ms) });
    const bans = [
      { ...before(1), keyId: "key_idle" },
      { ...before(2), keyId: "key_small", liftedAt: NOW, beganAt: new Date(dayText(1)) },
      // Today's usage report of key_busy lacks the first ban. Yesterday's report counts the next
      // two. The last ban is older than the days that the command shows.
      { ...before(1), keyId: "key_busy", endsAt: NOW },
      { ...before(DAY_MS), keyId: "key_busy", endsAt: NOW },
      { ...before(DAY_MS - 1), keyId: "key_busy", endsAt: NOW },
      { ...before(5 * DAY_MS), keyId: "key_busy", endsAt: NOW },
    ];
    await database.transaction(bans.map((ban) => builder.insert(keyBans).values(ban)));
  });

  it("is counted at once, and shown with its end", async () => {
    const all = await usageJson("--days", "2");
    expect(all.map(({ id, bans, bannedUntil }: any) => [id, bans, bannedUntil])).toEqual([
      ["key_busy", 3, null],
      ["key_idle", 1, until],
      ["key_small", 1, null],
    ]);
    expect(await usageJson("key_idle", "--days", "2")).toEqual([all[1]]);
    const [, idle] = await rowsOf("--days", "2");
    expect(idle?.slice(3)).toEqual(["–", "–", "–", "1", shown(until).slice(0, 16)]);
    expect(await rowsOf("key_idle", "--days", "2")).toEqual([
      [dayText(1), "–", "–", "–", "–"],
      [dayText(0), "–", "–", "–", "1"],
    ]);
    const { stdout } = await usage("key_idle", "--days", "2");
    expect(stdout).toContain(`Banned until ${shown(until)}.`);
  });

  it("shows on the page of its key, which need not be near a limit", async () => {
    const { status, stdout } = await usage("key_idle", "--near", "80", "--html", page);
    expect({ status, stdout }).toEqual({ status: 0, stdout: `The page is in ${page}.\n` });
    const text = await readFile(page, "utf8");
    expect(text).toContain("<h1>API usage of Idle</h1>");
    expect(text).not.toContain("key_busy");
    expect(text).toContain(`<strong>Banned until ${shown(until)}.`);
    expect(text).toContain("1 key reported nothing on these days.");
  });
});
