import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, it, vi } from "vitest";
import { keyBans, keyUsage } from "../../../src/schema/keys.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { runInProcess } from "../commands.ts";
import { KeyStore } from "./key-store.ts";

const NOW = new Date("2026-11-21T12:00:00.000Z");
/** Later than the clock of the database. */
const BAN_ENDS = new Date("2999-11-21T12:01:00.000Z");
const daysAgo = (days: number) => new Date(NOW.getTime() - days * 86_400_000);
const dayText = (days: number) => daysAgo(days).toISOString().slice(0, 10);
/** A key's name that runs a script or breaks the page if the page does not escape it. */
const HOSTILE = `</script><b>x</b><script>document.title = "taken over"</script><!--`;

const keys = new KeyStore();
const many = new KeyStore();
const usage = (...args: string[]) => keys.keys("usage", ...args);
const usageJson = (...args: string[]) => keys.keysJson("usage", ...args);

function row(keyId: string, days: number, admitted: number, figures = {}) {
  const counts = { admitted, refused: 0, strikes: 0, bans: 0, peakMinute: 20, peakDay: 100 };
  const limits = { perMinute: 60, perDay: 1_000, reportedAt: daysAgo(days) };
  return { keyId, day: dayText(days), ...counts, ...limits, ...figures };
}

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  await keys.add({ id: "key_idle", name: "Idle" });
  await keys.add({ id: "key_small", name: "Small" });
  await keys.add({ id: "key_busy", name: HOSTILE, plan: "pro" });
  await keys.database.orm.insert(keyUsage).values([
    row("key_busy", 0, 40, { perMinute: 40, peakMinute: 38, refused: 5, strikes: 3 }),
    row("key_busy", 1, 1_000, { bans: 2, strikes: 120, refused: 250, peakDay: 1_100 }),
    row("key_busy", 6, 500),
    row("key_busy", 20, 7, { peakMinute: 90 }),
    row("key_small", 2, 9, { peakMinute: 3, peakDay: 9 }),
    row("key_gone", 0, 1),
    // A limiter whose clock was ahead wrote them, and the ban below.
    ...["key_busy", "key_small"].map((id) => row(id, -365, 1_000)),
  ]);
  const ban = { number: 1, beganAt: NOW, endsAt: BAN_ENDS };
  await keys.database.orm.insert(keyBans).values([
    { ...ban, keyId: "key_idle", liftedAt: null },
    { ...ban, keyId: "key_small", liftedAt: NOW },
    { ...ban, keyId: "key_busy", beganAt: BAN_ENDS, endsAt: new Date("3000"), liftedAt: null },
  ]);
});

it("usage has the figures of each key, the busiest first, and null if not reported", async () => {
  const all = await usageJson("--days", "2");
  const { keyId: _, ...today } = row("key_busy", 0, 40, { perMinute: 40, peakMinute: 38 });
  const reportedAt = NOW.toISOString();
  const counts = { admitted: 1_040, refused: 255, strikes: 123, bans: 2 };
  const figures = { ...counts, minutePeak: 0.95, dayPeak: 1, reportedAt, reportAgeSeconds: 0 };
  const none = Object.fromEntries(Object.keys(figures).map((name) => [name, null]));
  const unreported = { ...none, plan: "free", days: [] };
  const yesterday = expect.objectContaining({ day: dayText(1), admitted: 1_000 });
  const days = [yesterday, { ...today, refused: 5, strikes: 3, reportedAt }];
  expect(all).toEqual([
    { id: "key_busy", name: HOSTILE, plan: "pro", ...figures, bannedUntil: null, days },
    { id: "key_idle", name: "Idle", ...unreported, bannedUntil: BAN_ENDS.toISOString() },
    { id: "key_small", name: "Small", ...unreported, bannedUntil: null },
  ]);
  expect(await usageJson("key_busy", "--days", "2")).toEqual([all[0]]);
  const args = ["usage", "--days", "2", "--persist-to", keys.path];
  const { stdout, stderr } = await runInProcess(keysProgram(), args, "", { columns: 84 });
  expect(stdout).toBe(`\
id         admitted  refused  bans  peak/min  peak/day  reported   name
key_busy      1,040      255     2  95 %      100 %     0 min ago  </script><b>x</b…
key_idle          –        –     –  –         –         –          Idle
key_small         –        –     –  –         –         –          Small
`);
  expect(stderr).toContain(
    "key_idle is banned until 2999-11-21 12:01 UTC.\nThe last report came 0 min ago;",
  );
});

it("usage counts the last days, today included, and shows one key day by day", async () => {
  const listed = (admitted: number, minutePeak: number) => [{ admitted, minutePeak }, {}, {}];
  expect(await usageJson("--days", "1")).toMatchObject(listed(40, 0.95));
  expect(await usageJson("--days", "20")).toMatchObject(listed(1_540, 0.95));
  expect(await usageJson("--days", "21")).toMatchObject(listed(1_547, 1));
  const { stdout } = await usage("key_busy");
  expect(stdout).toMatch(
    /^day .*\n2026-11-21 .*\n2026-11-20 +1,000 +250 +2 +33 % +100 %\n(?:2026-11-.*\n){12}$/,
  );
  expect((await usage("key_small", "--days", "3")).stdout).toMatch(/ +9 +0 +0 +5 % +1 %\n$/);
});

it("usage says how old the last report of a key is, and nothing is later than now", async () => {
  for (const [minutes, ago] of [
    [-5, "0 min"],
    [119, "119 min"],
    [120, "2 h"],
    [2_881, "2 days"],
  ] as const) {
    vi.setSystemTime(daysAgo(2).getTime() + minutes * 60_000);
    const [report] = await usageJson("key_small");
    expect(report).toMatchObject({ admitted: 9, reportAgeSeconds: Math.max(0, minutes * 60) });
    const { stdout, stderr } = await usage();
    expect(stdout).toMatch(new RegExp(`^key_small .* ${ago} ago +Small`, "m"));
    expect(stderr).toContain(minutes > 0 ? "came" : "came 0 min ago");
  }
  vi.setSystemTime(NOW);
});

it("usage adds up more rows than two queries return, and sorts by refused requests", async () => {
  for (let index = 0; index < 60; index += 1) await many.add({ id: `key_${index}` });
  await many.database.orm.run(`INSERT INTO key_usage
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 365)
    SELECT id, date('${dayText(0)}', '-' || i || ' days'), 2, id = 'key_7', 0, 0, 1, 1, 60, 1000, 0
    FROM api_keys, n`);
  const found: { id: string; admitted: number }[] = await many.keysJson("usage", "--days", "366");
  expect(found.map(({ admitted }) => admitted)).toEqual(Array(60).fill(2 * 366));
  expect(found[0]?.id).toBe("key_7");
});

it("usage --html writes a page of all keys or of one, and runs no script from a name", async () => {
  const file = join(keys.path, "usage.html");
  const write = async (...args: readonly string[]) => {
    expect(await usage(...args, "--html", file)).toMatchObject({ status: 0, stdout: "" });
    return readFile(file, "utf8");
  };
  const all = await write("--days", "7");
  expect(all).not.toMatch(/<script|<b>/);
  const policy = "default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;";
  expect(all).toContain(`http-equiv="Content-Security-Policy" content="${policy}"`);
  expect(all).toContain('<meter value="0.95" high="0.8"></meter>');
  const text = all.replaceAll(/<[^>]*>/g, " ").replaceAll(/\s+/g, " ");
  expect(text).toContain("UTC: admitted 1,549, refused 255, bans 2");
  const busy = "key_busy, pro, last report: 0 min ago 1,540 255 2 95 % 100 %";
  const idle = "free, last report: – Banned until 2999-11-21 12:01 UTC. – – – – –";
  const tables = ["Refused or banned", busy, idle, "Near a limit", busy, "All keys", busy, idle];
  const parts = [...tables, "By day", "2026-11-21 40 5 0 95 % 10 %"];
  expect(text).toMatch(new RegExp(parts.join(".*")));
  const one = await write("key_idle", "--days", "1");
  expect(one).toContain("<title>API usage of Idle, 2026-11-21</title>");
  expect(one).toContain("<strong>Banned until 2999-11-21 12:01 UTC.</strong>");
  expect(one).not.toMatch(/key_busy|Near a limit/);
});

it("usage --near has only keys that reached 80 % of the limit of a minute or a day", async () => {
  const file = join(keys.path, "near.html");
  for (const [figures, ids] of [
    ["peak_minute = 47, peak_day = 799", ["key_busy"]],
    ["peak_minute = 48, peak_day = 0", ["key_busy", "key_small"]],
    ["peak_minute = 0, peak_day = 800", ["key_busy", "key_small"]],
  ] as const) {
    await keys.database.orm.run(`UPDATE key_usage SET ${figures} WHERE key_id = 'key_small'`);
    expect(await usageJson("--near")).toMatchObject(ids.map((id) => ({ id })));
  }
  const none = /^No key is known to have reached 80 % of a limit\.\nNothing was reported;/;
  const unreported = { status: 0, stdout: "", stderr: expect.stringMatching(none) };
  expect(await usage("--near", "key_idle")).toEqual(unreported);
  const both = { stdout: expect.stringMatching(/^\[\{.*\}\]\n$/) };
  expect(await usage("--near", "--html", file, "--json")).toMatchObject(both);
  expect(await readFile(file, "utf8")).not.toContain("key_idle");
});
