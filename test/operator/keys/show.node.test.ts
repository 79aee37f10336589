import { Readable } from "node:stream";
import { beforeAll, describe, expect, it } from "vitest";
import {
  createVerificationKey,
  type CreatedKey,
  generateSecret,
} from "../../../src/operator/keys/key-changes.ts";
import { addKeys } from "../../../src/operator/keys/change-key.ts";
import { deleteVerificationKeys } from "../../../src/operator/keys/stored-keys.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { keyBans, keyUsage } from "../../../src/schema/keys.ts";
import { failure, runInProcess } from "../in-process.ts";
import { KeysCommand } from "./keys-command.ts";

const NOW = new Date();
const inSeconds = (seconds: number) => new Date(NOW.getTime() + seconds * 1_000);
const text = (seconds: number) => inSeconds(seconds).toISOString();

const peaks = { peakMinute: 60, peakDay: 60, perMinute: 60, perDay: 1_000 };
const COUNTS = { admitted: 60, refused: 9, strikes: 0, bans: 0, ...peaks };

const keys = new KeysCommand();
let zoo: CreatedKey;

beforeAll(async () => {
  zoo = await keys.add();
});

/** Runs `keys show -` with `input` on standard input. Each item of `input` is one chunk. */
function showInput(input: Iterable<string>, ...args: string[]) {
  const stdin = Readable.from(Iterator.from(input));
  return runInProcess(keysProgram(), ["show", "-", "--persist-to", keys.path, ...args], stdin);
}

function* endless(): Generator<string, never> {
  for (;;) yield "x".repeat(1_000_000);
}

describe("keys show -", () => {
  it("finds a key by its present and former secrets, and prints no secret", async () => {
    const { key: former, record } = await keys.add({ name: "Rotated" });
    const { key: current } = await keys.json("rotate", record.id);
    for (const secret of [former, ` ${current}\r\n`]) {
      const json = await showInput([secret], "--json");
      const shown = await showInput([secret]);
      expect(JSON.parse(json.stdout).id).toBe(record.id);
      expect(shown).toMatchObject({ status: 0, stdout: expect.stringContaining(record.id) });
      expect(shown.stdout + json.stdout).not.toContain(secret.trim());
      const byEnding = await keys.json("list", "--ending", secret.trim().slice(-4).toUpperCase());
      expect(byEnding.map(({ id }: any) => id)).toContain(record.id);
    }
  });

  it.each([
    ["nothing", () => [""]],
    ["a mistyped key", () => [`${zoo.key.slice(0, -1)}${zoo.key.endsWith("a") ? "b" : "a"}`]],
    ["two keys", () => [`${zoo.key}\n${zoo.key}`]],
    ["endless input", endless],
  ])("refuses %s", async (_, input) => {
    const outcome = await showInput(input());
    expect(outcome).toEqual(failure("holds no API key of this service"));
    expect(outcome.stderr).not.toContain("sord_");
  });

  it("says that the store does not know the key", async () => {
    expect(await showInput([generateSecret()])).toEqual(
      failure("this store does not know the key"),
    );
  });
});

describe("keys show", () => {
  it("shows the last use and the bans, the newest first, and reset lifts the ban in force", async () => {
    const { id } = zoo.record;
    const { orm } = await keys.database();
    const day = text(-86_400).slice(0, 10);
    await orm
      .insert(keyUsage)
      .values({ keyId: id, day, ...COUNTS, peakMinute: 1, reportedAt: inSeconds(-9) });
    await orm.insert(keyBans).values([
      { keyId: id, number: 1, beganAt: inSeconds(-300), endsAt: inSeconds(-240) },
      { keyId: id, number: 2, beganAt: inSeconds(-60), endsAt: inSeconds(600) },
    ]);
    const banned = { state: "banned", bannedUntil: text(600) };
    const bans = [
      { number: 2, beganAt: text(-60), until: text(600), liftedAt: null, state: "in force" },
      { number: 1, beganAt: text(-300), until: text(-240), liftedAt: null, state: "ended" },
    ];
    const use = { lastUsedOn: day, reportedAt: text(-9) };
    expect(await keys.json("show", id)).toMatchObject({ ...banned, ...use, bans });
    expect(await keys.text("show", id)).toMatch(
      /last used +20[^]*The last bans:\n[^]*in force[^]*ended/,
    );
    expect(await keys.json("list", "--state", "banned")).toMatchObject([{ id, ...banned }]);
    await keys.json("reset", id);
    const after = await keys.json("show", id);
    expect(after).toMatchObject({ state: "active", bannedUntil: null });
    expect(after.bans.map(({ state }: any) => state)).toEqual(["lifted", "ended"]);
  });
});

describe("the keys of npm run verify", () => {
  it("are hidden in list and usage, and deleted at last, with those of a killed verification", async () => {
    const database = await keys.database();
    const own = createVerificationKey(new Date());
    const killed = createVerificationKey(new Date(Date.now() - 3_600_000));
    const running = createVerificationKey(new Date());
    const ids = [own, killed, running].map(({ record }) => record.id);
    await addKeys(database, [own.record, killed.record, running.record]);
    const day = new Date().toISOString().slice(0, 10);
    for (const keyId of ids) {
      await database.orm.insert(keyUsage).values({ keyId, day, ...COUNTS, reportedAt: NOW });
    }
    const shown = await keys.text("list");
    expect(await keys.json("usage", "--near")).toEqual([]);
    for (const id of ids) expect(shown + (await keys.text("usage"))).not.toContain(id);
    await deleteVerificationKeys(database, own.record.id);
    expect(await keys.rows("SELECT id FROM api_keys WHERE name = 'Verification'")).toEqual([
      { id: running.record.id },
    ]);
    expect(await keys.rows(`SELECT key_id FROM key_usage`)).toHaveLength(2);
  });
});
