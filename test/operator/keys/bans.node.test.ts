import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { listApiKeys } from "../../../src/operator/key-store/key-details.ts";
import { insertInto } from "../../support/row.ts";
import { KeysCommand, tableCells } from "./keys-command.ts";

const NOW = new Date("2030-01-01T12:00:00.000Z");
const inSeconds = (seconds: number) => new Date(NOW.getTime() + seconds * 1_000);
const text = (seconds: number) => inSeconds(seconds).toISOString();
const minute = (seconds: number) => text(seconds).slice(0, 16).replace("T", " ");

const keys = new KeysCommand();
let zoo: string;
let shop: string;

beforeAll(async () => {
  vi.stubEnv("COLUMNS", "200");
  zoo = (await keys.add({ name: "Zoo" })).record.id;
  shop = (await keys.add({ name: "Shop" })).record.id;
  const ban = { keyId: zoo, liftedAt: null };
  const bans = [
    { ...ban, number: 1, beganAt: inSeconds(-300), endsAt: inSeconds(-240) },
    { ...ban, number: 2, beganAt: inSeconds(-60), endsAt: inSeconds(60) },
    { ...ban, keyId: shop, number: 1, beganAt: inSeconds(-30), endsAt: inSeconds(30) },
    { ...ban, keyId: "key_gone", number: 1, beganAt: inSeconds(-90), endsAt: NOW },
  ];
  const database = await keys.database();
  await database.transaction(bans.map((row) => insertInto("key_bans", row)));
});
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOW }));
afterEach(() => void vi.useRealTimers());

const inForce = () =>
  keys.json("bans", "--in-force").then((bans) => bans.map(({ keyId }: any) => keyId));

describe("keys bans", () => {
  it("prints the bans of all keys or of one, the newest first", async () => {
    const all = await keys.json("bans");
    const namesAndNumbers = all.map(({ name, number }: any) => `${name} ${number}`);
    expect(namesAndNumbers).toEqual(["Shop 1", "Zoo 2", "null 1", "Zoo 1"]);
    const times = { beganAt: text(-60), until: text(60), liftedAt: null };
    expect(all[1]).toEqual({ keyId: zoo, name: "Zoo", number: 2, ...times, state: "in force" });
    expect(await keys.json("bans", zoo)).toEqual([all[1], all[3]]);
    expect(await keys.json("bans", "--limit", "1")).toEqual([all[0]]);
    expect(await inForce()).toEqual([shop, zoo]);
  });

  it("prints a table, or a sentence if there are no bans", async () => {
    const table = await keys.text("bans");
    expect(tableCells(table)[0]).toContain("until (UTC)");
    expect(table).toContain(minute(60));
    expect(table).toMatch(/in force.*\n.*in force.*\n.*ended.*\n.*ended/);
    expect(await keys.text("bans", "key_nobody")).toBe("No such bans are recorded.\n");
    expect(await keys.text("bans", "--limit", "2")).toContain("--limit N shows more");
  });
});

describe("a ban in force", () => {
  it("appears in `keys show` and in `keys list`", async () => {
    const banned = { state: "banned", bannedUntil: text(60) };
    expect(await keys.json("show", zoo)).toMatchObject(banned);
    expect(await keys.text("show", zoo)).toMatch(new RegExp(`banned until +${minute(60)} UTC`));
    expect(await keys.json("list", "--name", "Zoo")).toMatchObject([banned]);
  });

  it("makes the key banned rather than active until its end", async () => {
    const namesOf = async (state: "banned" | "active", now: Date) =>
      (await listApiKeys((await keys.database()).orm, { state }, now)).map(({ name }) => name);
    expect(await namesOf("banned", inSeconds(29))).toEqual(["Zoo", "Shop"]);
    expect(await namesOf("banned", inSeconds(30))).toEqual(["Zoo"]);
    expect(await namesOf("active", inSeconds(30))).toEqual(["Shop"]);
    expect(await namesOf("active", inSeconds(60))).toEqual(["Zoo", "Shop"]);
  });

  it("is lifted by the first reset", async () => {
    expect(await keys.json("reset", zoo)).toMatchObject({ state: "active", bannedUntil: null });
    expect(await keys.json("show", zoo)).toMatchObject({ state: "active", bannedUntil: null });
    const bans = await keys.json("bans", zoo);
    expect(bans.map(({ state, liftedAt }: any) => [state, liftedAt])).toEqual([
      ["lifted", text(0)],
      ["ended", null],
    ]);
    expect(await keys.text("bans", zoo)).toMatch(new RegExp(`lifted.* ${minute(0)}\n`));
    expect(await inForce()).toEqual([shop]);
    vi.setSystemTime(inSeconds(1));
    await keys.json("reset", zoo);
    expect((await keys.json("bans", zoo))[0].liftedAt).toBe(text(0));
  });

  it("does not hide a revocation", async () => {
    expect(await keys.json("revoke", shop)).toMatchObject({ state: "revoked" });
    expect(await keys.text("show", shop)).not.toContain("banned");
  });
});

describe("keys show", () => {
  it("shows the day of the last use and the time of the last report", async () => {
    const { record: key } = await keys.add();
    expect(await keys.text("show", key.id)).toContain("no use in the last 366 days");
    const usage = { admitted: 1, refused: 0, strikes: 0, bans: 0, peakMinute: 1, peakDay: 1 };
    const row = { keyId: key.id, ...usage, perMinute: 60, perDay: 1_000 };
    const rows = [
      { ...row, day: "2029-12-30", reportedAt: inSeconds(-2 * 86_400) },
      { ...row, day: "2029-12-31", reportedAt: inSeconds(-86_400) },
      { ...row, keyId: "key_other", day: "2030-01-01", reportedAt: NOW },
    ];
    const database = await keys.database();
    await database.transaction(rows.map((reported) => insertInto("key_usage", reported)));
    expect(await keys.json("show", key.id)).toMatchObject({
      lastUsedOn: "2029-12-31",
      reportedAt: text(-86_400),
    });
    expect(await keys.text("show", key.id)).toContain(
      `Last used on 2029-12-31, as reported at ${minute(-86_400)} UTC.`,
    );
  });
});
