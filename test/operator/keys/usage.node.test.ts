import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { apiKeys, keyBans, keyUsage } from "../../../src/schema/keys.ts";
import type { PLANS } from "../../../src/worker/limit-rules/plans.ts";
import { OpenStore } from "../store-folder.ts";
import { tableCells } from "../table-cells.ts";

const store = new OpenStore();
const DAY_MS = 86_400_000;
const today = Math.floor(Date.now() / DAY_MS);
/** The time of the stopped clock: noon today, so that no command runs on another day. */
const nowMs = (today + 0.5) * DAY_MS;

const inAnHour = new Date(nowMs + 3_600_000).toISOString();
const shown = (time: string) => `${time.slice(0, 16).replace("T", " ")} UTC`;

const dayText = (daysAgo: number) =>
  new Date((today - daysAgo) * DAY_MS).toISOString().slice(0, 10);

function row(keyId: string, daysAgo: number, admitted: number, figures = {}) {
  return {
    keyId,
    day: dayText(daysAgo),
    admitted,
    refused: 0,
    strikes: 0,
    bans: 0,
    peakMinute: 30,
    peakDay: 100,
    perMinute: 60,
    perDay: 1_000,
    reportedAt: new Date(nowMs - daysAgo * DAY_MS),
    ...figures,
  };
}

const key = (id: string, name: string, plan: (typeof PLANS)[number], hash: string) => ({
  id,
  name,
  plan,
  hash,
  createdAt: new Date(nowMs - 40 * DAY_MS),
});

beforeAll(async () => {
  vi.stubEnv("COLUMNS", "200");
  vi.useFakeTimers({ toFake: ["Date"], now: nowMs });
  const database = await store.database("keys");
  await database.orm
    .insert(apiKeys)
    .values([
      key("key_idle", "Idle", "business", "1"),
      key("key_small", "Small", "free", "2"),
      key("key_busy", "Busy & <b>", "pro", "3"),
    ]);
  await database.orm
    .insert(keyUsage)
    .values([
      row("key_busy", 0, 40, { perMinute: 40, peakMinute: 38, refused: 5, strikes: 3 }),
      row("key_busy", 1, 1_000, { bans: 2, strikes: 120, refused: 250, peakDay: 1_000 }),
      row("key_busy", 6, 500),
      row("key_busy", 20, 7),
      row("key_small", 2, 9, { peakMinute: 3, peakDay: 9 }),
      row("key_gone", 0, 1),
    ]);
});
afterAll(() => {
  vi.useRealTimers();
  return store.close();
});

function usage(...args: string[]) {
  return store.keys("usage", ...args);
}

async function usageJson(...args: string[]): Promise<any> {
  const { status, stdout, stderr } = await usage(...args, "--json");
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return JSON.parse(stdout);
}

/** Returns the figures at the top of a usage page. */
function figuresOf(html: string): string[] {
  return [...html.matchAll(/<dd>(.*?)<span/g)].map(([, figure = ""]) => figure);
}

describe("keys usage", () => {
  it("prints a row with a plot for each key, the busiest first", async () => {
    const { status, stdout } = await usage("--days", "7");
    expect(status).toBe(0);
    const [titles, ...rows] = tableCells(stdout);
    expect(titles?.at(-1)).toBe("by day");
    expect(stdout).toContain(`From ${dayText(6)} to ${dayText(0)}, as reported`);
    expect(rows).toEqual([
      ["key_busy", "Busy & <b>", "pro", "1,540", "255", "123", "2", "95 %", "100 %", "▄▁▁▁▁█▁"],
      ["key_small", "Small", "free", "9", "0", "0", "0", "5 %", "1 %", "▁▁▁▁█▁▁"],
      ["key_idle", "Idle", "business", "–", "–", "–", "–", "", "", ""],
    ]);
    expect(stdout).toContain(`, as reported until ${shown(new Date(nowMs).toISOString())}.`);
    expect(stdout).toContain("lower bounds");
    expect(stdout).toContain(
      `–: nothing was reported. A key in use reports by ${shown(inAnHour)}.`,
    );
  });

  it("says by when a key reports usage if it has reported none yet", async () => {
    const { stdout } = await usage("key_idle", "--days", "2");
    expect(stdout).toBe(
      `key_idle, Idle (business)\nNo figures from ${dayText(1)} to ${dayText(0)}. A key in use reports by ${shown(inAnHour)}.\n`,
    );
    const small = await usage("key_small", "--days", "2");
    expect(small.stdout).toContain("No figures");
    // The key reported nothing for yesterday or today. Yesterday ended more than an hour ago, so it
    // is shown as 0; today's figures may still arrive.
    const [, ...rows] = tableCells((await usage("key_small", "--days", "3")).stdout);
    expect(rows.map((cellsOfDay) => cellsOfDay.slice(1, 5))).toEqual([
      ["9", "0", "0", "0"],
      ["0", "0", "0", "0"],
      ["–", "–", "–", "–"],
    ]);
  });

  it("prints a row for each day of one key, for 14 days by default", async () => {
    const { stdout } = await usage("key_busy");
    const [, ...rows] = tableCells(stdout);
    expect(rows).toHaveLength(14);
    expect(rows.slice(-2)).toEqual([
      [dayText(1), "1,000", "250", "120", "2", "30 of 60", "1,000 of 1,000"],
      [dayText(0), "40", "5", "3", "0", "38 of 40", "100 of 1,000"],
    ]);
    expect(rows[0]).toEqual([dayText(13), "0", "0", "0", "0", "", ""]);
    expect(stdout).toMatch(/: ▁{7}▄▁{4}█▁\n/);
  });

  it("prints JSON of the keys, with the days on which a key reported usage", async () => {
    const all = await usageJson("--days", "2");
    expect(all.map(({ id }: { id: string }) => id)).toEqual(["key_busy", "key_idle", "key_small"]);
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
      reportedAt: new Date(nowMs).toISOString(),
      completeBy: inAnHour,
      bannedUntil: null,
      days: [
        expect.objectContaining({ day: dayText(1), admitted: 1_000, perDay: 1_000 }),
        {
          day: dayText(0),
          admitted: 40,
          refused: 5,
          strikes: 3,
          bans: 0,
          peakMinute: 38,
          peakDay: 100,
          perMinute: 40,
          perDay: 1_000,
          reportedAt: new Date(nowMs).toISOString(),
        },
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

  it.each(["0", "367", "-1", "1.5", "week"])("refuses %s days", async (days) => {
    const { status, stderr } = await usage("--days", days);
    expect(status).toBe(2);
    expect(stderr).toContain("from 1 to 366");
  });

  it("refuses an unknown id", async () => {
    const { status, stdout, stderr } = await usage("key_nobody");
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain('no key has the id "key_nobody"');
  });

  it("adds up more rows than one query returns", async () => {
    const many = new OpenStore();
    const database = await many.database("keys");
    const numbers =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 7000)";
    await database.transaction([
      {
        sql: `INSERT INTO api_keys (id, hash, name, plan, created_at) ${numbers} SELECT 'key_' || i, i, 'N', 'free', i FROM n`,
        params: [],
      },
      ...[0, 1, 2].map((daysAgo) => ({
        sql: `INSERT INTO key_usage ${numbers} SELECT 'key_' || i, ?, 2, 0, 0, 0, 1, 1, 60, 1000, ? FROM n`,
        params: [dayText(daysAgo), nowMs],
      })),
    ]);
    const keys: { admitted: number }[] = await many.keysJson("usage");
    await many.close();
    expect(keys).toHaveLength(7_000);
    expect(keys.every(({ admitted }) => admitted === 6)).toBe(true);
  });
});

describe("figures that no key has reported yet", () => {
  const fresh = new OpenStore();
  const page = join(fresh.path, "usage.html");
  beforeAll(async () => {
    const database = await fresh.database("keys");
    await database.orm.insert(apiKeys).values(key("key_new", "New", "free", "4"));
  });
  afterAll(() => fresh.close());

  it.each([[[]], [["key_new"]]])("are unknown in JSON and on the page of %j", async (args) => {
    const { status, stdout } = await fresh.keys("usage", ...args, "--json", "--html", page);
    expect(status).toBe(0);
    const unknown = { admitted: null, refused: null, strikes: null, bans: null };
    const peaks = { minutePeak: null, dayPeak: null };
    expect(JSON.parse(stdout)).toMatchObject([{ ...unknown, ...peaks, completeBy: inAnHour }]);
    const html = (await readFile(page, "utf8")).replace(/\s+/g, " ");
    expect(figuresOf(html)).toStrictEqual(["–", "–", "–", "–", "–"]);
    expect(html.includes(`A key in use reports by <time datetime="${inAnHour}">`)).toBe(true);
    const sentences = [...html.matchAll(/<p class="none">(.*?)</g)].map(([, text]) => text);
    expect(new Set(sentences)).toStrictEqual(
      new Set(args.length === 0 ? ["No key has reported use on these days."] : []),
    );
    const rows = [...html.matchAll(/<th scope="row">(.*?)<\/th>\s*<td[^>]*>(.*?)<\/td>/g)];
    const figures = rows.filter(([, day]) => day === dayText(0)).map(([, , figure]) => figure);
    expect(figures.length).toBeGreaterThan(1);
    expect(new Set(figures)).toStrictEqual(new Set(["–"]));
  });

  it("are no proof that no key is near a limit", async () => {
    const { status, stdout } = await fresh.keys("usage", "--near", "80");
    expect(status).toBe(0);
    expect(stdout).toBe(
      `No key is known to have reached 80 % of a limit. 1 key reported nothing. A key in use reports by ${shown(inAnHour)}.\n`,
    );
  });
});

describe("keys usage --near", () => {
  it("shows keys at this share of a limit in two days, and exits with status 3", async () => {
    const { status, stdout, stderr } = await usage("--near", "80");
    expect({ status, stderr }).toEqual({ status: 3, stderr: "" });
    const [titles, ...rows] = tableCells(stdout);
    expect(titles).toContain("day peak");
    expect(stdout).toContain(`From ${dayText(1)} to ${dayText(0)}, as reported`);
    expect(rows.map(([id]) => id)).toEqual(["key_busy"]);
  });

  it.each([
    ["the minute of today", ["--near", "95", "--days", "1"], ["key_busy"]],
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

  it("says that no key is near its limit", async () => {
    const none = "No key reached 80 % of a limit.\n";
    const outcome = await usage("key_small", "--near", "80", "--days", "3");
    expect(outcome).toEqual({ status: 0, stdout: none, stderr: "" });
  });
});

describe("a ban that is not in a usage report yet", () => {
  const untilMs = nowMs + 60_000;

  beforeAll(async () => {
    const ban = { number: 1, endsAt: new Date(untilMs) };
    const database = await store.database("keys");
    await database.orm.insert(keyBans).values([
      { ...ban, keyId: "key_idle", beganAt: new Date(nowMs - 1) },
      { ...ban, keyId: "key_small", beganAt: new Date(nowMs - 2), liftedAt: new Date(nowMs) },
      // The first two bans of key_busy are already in a usage report. The third ban was before the
      // days that the command reports.
      { ...ban, keyId: "key_busy", beganAt: new Date(nowMs - DAY_MS), endsAt: new Date(nowMs) },
      { ...ban, keyId: "key_busy", beganAt: new Date(nowMs - DAY_MS + 1), endsAt: new Date(nowMs) },
      { ...ban, keyId: "key_busy", beganAt: new Date(nowMs - 5 * DAY_MS), endsAt: new Date(nowMs) },
    ]);
  });

  it("is counted at once, and shown with its end", async () => {
    const until = new Date(untilMs).toISOString();
    const all = await usageJson("--days", "2");
    expect(all.map(({ id, bans, bannedUntil }: any) => [id, bans, bannedUntil])).toEqual([
      ["key_busy", 2, null],
      ["key_idle", 1, until],
      ["key_small", 1, null],
    ]);
    expect(await usageJson("key_idle", "--days", "2")).toEqual([all[1]]);

    const table = tableCells((await usage("--days", "2")).stdout);
    expect(table[0]).toContain("banned until (UTC)");
    expect(table[2]).toEqual([
      "key_idle",
      "Idle",
      "business",
      "–",
      "–",
      "–",
      "1",
      "",
      "",
      until.slice(0, 16).replace("T", " "),
      "",
    ]);
    const { stdout } = await usage("key_idle", "--days", "2");
    expect(stdout).toContain(`Banned until ${shown(until)}.`);
    expect(tableCells(stdout).slice(1)).toEqual([
      [dayText(1), "0", "0", "0", "0"],
      [dayText(0), "–", "–", "–", "1"],
    ]);
  });

  it("shows on the page of its key, which need not be near a limit", async () => {
    const page = join(store.path, "banned.html");
    const { status, stdout } = await usage("key_idle", "--near", "80", "--html", page);
    expect(status).toBe(0);
    expect(stdout).toContain(`The page is in ${page}.`);
    const text = await readFile(page, "utf8");
    expect(text).toContain("<h1>API usage of Idle</h1>");
    const until = new Date(untilMs).toISOString();
    expect(text).toContain(`<strong>Banned until <time datetime="${until}">`);
    expect(text).toContain("1 key reported nothing on these days.");
  });
});

describe("keys usage --html", () => {
  const page = join(store.path, "usage.html");

  it("replaces an existing file and leaves no other file", async () => {
    await writeFile(page, "an older page");
    const before = await readdir(store.path);
    const { status, stdout } = await usage("--html", page);
    expect({ status, stdout }).toEqual({ status: 0, stdout: `The page is in ${page}.\n` });
    const text = await readFile(page, "utf8");
    expect(text).toMatch(/^<!doctype html>[^]*<\/html>$/);
    expect(text).toContain("Busy &amp; &lt;b&gt;");
    expect(text).not.toContain("<b>");
    expect(await readdir(store.path)).toEqual(before);
  });

  it("writes the page of one key and prints its JSON", async () => {
    const [{ id }] = await usageJson("key_small", "--html", page);
    expect(id).toBe("key_small");
    const text = await readFile(page, "utf8");
    expect(text).toContain("<h1>API usage of Small</h1>");
    expect(text).not.toContain("key_busy");
    // The key reported nothing for yesterday or today. Yesterday ended more than an hour ago, so it
    // is shown as 0; today's figures may still arrive.
    const lastRows = [...text.matchAll(/<th scope="row">(.*?)<\/th>\s*<td[^>]*>(.*?)<\/td>/g)];
    expect(lastRows.slice(11, 14).map(([, day, admitted]) => [day, admitted])).toEqual([
      [dayText(2), "9"],
      [dayText(1), "0"],
      [dayText(0), "–"],
    ]);
  });

  it("says what is wrong with the path", async () => {
    const missing = await usage("--html", join(store.path, "missing", "usage.html"));
    expect(missing).toMatchObject({ status: 1, stdout: "" });
    expect(missing.stderr).toContain(`there is no folder ${join(store.path, "missing")}`);
    const folder = await usage("--html", store.path);
    expect(folder.stderr).toContain(`${store.path} is a folder`);
  });
});
