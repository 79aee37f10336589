import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import * as databases from "../../../src/operator/database/database.ts";
import type { Plan } from "../../../src/rules/limits/plans.ts";
import { apiKeys, keyBans, keyUsage } from "../../../src/schema/keys.ts";
import { OpenStore } from "../store-folder.ts";
import { tableCells } from "./keys-command.ts";

const DAY_MS = 86_400_000;
const NOW = new Date("2026-11-21T12:00:00.000Z");
const IN_AN_HOUR = "2026-11-21 13:00 UTC";
const daysAgo = (days: number) => new Date(NOW.getTime() - days * DAY_MS);
const dayText = (days: number) => daysAgo(days).toISOString().slice(0, 10);

const store = new OpenStore();
const fresh = new OpenStore();

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

describe("keys usage", () => {
  it("prints a row for each key, the busiest first, and how recent the figures are", async () => {
    expect(await rowsOf("--days", "7")).toEqual([
      ["key_busy", "1,540", "255", "2", "95 %", "100 %", "Busy & <b>"],
      ["key_small", "9", "0", "0", "5 %", "1 %", "Small"],
      ["key_idle", "–", "–", "–", "–", "–", "Idle"],
    ]);
    expect((await usage("--days", "7")).stderr).toBe(
      `As reported until 2026-11-21 12:00 UTC; refused requests are a lower bound. – means not reported yet: a key in use reports by ${IN_AN_HOUR}.\n`,
    );
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
    expect(idle.stderr).toContain("Nothing was reported.");
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
      completeBy: "2026-11-21T13:00:00.000Z",
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
    "leaves unreported figures open, also on the page: %j",
    async (args) => {
      const file = join(fresh.path, "usage.html");
      const { stdout } = await fresh.keys("usage", ...args, "--json");
      const [json] = JSON.parse(stdout);
      const unknown = { admitted: null, refused: null, strikes: null, bans: null };
      expect(json).toMatchObject({ ...unknown, minutePeak: null, dayPeak: null });
      const outcome = await fresh.keys("usage", ...args, "--html", file);
      expect(outcome).toEqual({ status: 0, stdout: "", stderr: `The page is in ${file}.\n` });
      const page = await readFile(file, "utf8");
      const tiles = [...page.matchAll(/<dd>(.*?)<\/dd>/g)].map(([, figure]) => figure);
      expect(new Set(tiles)).toEqual(new Set(["–"]));
      expect(page).toContain(`a key in use reports by ${IN_AN_HOUR}`);
    },
  );
});

it.each([
  ["the minute of today", ["--days", "1"], ["key_busy"]],
  ["the day of yesterday", ["key_busy", "--days", "2"], ["key_busy"]],
  ["one key far from its limits", ["key_small"], []],
  ["an unreported key", ["key_idle"], []],
])("keys usage --near looks at %s, and succeeds either way", async (_, args, expected) => {
  expect((await usageJson("--near", ...args)).map(({ id }: any) => id)).toEqual(expected);
  const { status, stderr } = await usage("--near", ...args);
  expect(status).toBe(0);
  const none = "No key is known to have reached 80 % of a limit.";
  expect(stderr.includes(none)).toBe(expected.length === 0);
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
    const name = "Idle, banned until 2026-11-21 12:01 UTC";
    expect(idle).toEqual(["key_idle", "–", "–", "1", "–", "–", name]);
    expect(await rowsOf("key_idle", "--days", "2")).toEqual([
      [dayText(0), "–", "–", "1", "–", "–"],
      [dayText(1), "–", "–", "–", "–", "–"],
    ]);
    const file = join(store.path, "usage.html");
    await usage("key_idle", "--html", file);
    const page = await readFile(file, "utf8");
    expect(page).toContain("<strong>Banned until 2026-11-21 12:01 UTC.</strong>");
    expect(page).not.toContain("key_busy");
  });
});
