import { hostname } from "node:os";
import { Readable } from "node:stream";
import { sql } from "drizzle-orm";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { addKeys, changeKey } from "../../../src/operator/keys/change-key.ts";
import {
  createVerificationKey,
  type CreatedKey,
  deleteVerificationKeys,
  generateSecret,
  type KeyDetails,
} from "../../../src/operator/keys/key-changes.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { keyBans } from "../../../src/schema/keys.ts";
import { failure, runInProcess } from "../in-process.ts";
import { KeysCommand, tableCells, TIME } from "./keys-command.ts";

const NOW = new Date();
const after = (seconds: number) => new Date(NOW.getTime() + seconds * 1_000);
const inDays = (days: number) => after(days * 86_400);
const text = (seconds: number) => after(seconds).toISOString();

const keys = new KeysCommand();
const others = new KeysCommand();
let zoo: CreatedKey;

beforeAll(async () => {
  zoo = await others.add();
});
beforeEach(() => void vi.stubEnv("STORE_ORDERS_ACTOR", "Ada"));
afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

/** Runs `keys show -` with `input` on standard input. Each item of `input` is one chunk. */
function showInput(input: Iterable<string>, ...args: string[]) {
  const stdin = Readable.from(Iterator.from(input));
  return runInProcess(keysProgram(), ["show", "-", "--persist-to", others.path, ...args], stdin);
}

function* endless(): Generator<string, never> {
  for (;;) yield "x".repeat(1_000_000);
}

describe("keys list", () => {
  beforeAll(async () => {
    const pro = { name: "later", plan: "pro", expiresAt: inDays(31) } as const;
    await keys.add(pro, { createdAt: inDays(-7) });
    await keys.add({ name: "CAFÉ Łódź & Co" }, { createdAt: inDays(-9) });
    await keys.add({ ...pro, name: "Expired", expiresAt: NOW }, { createdAt: inDays(-6) });
    await keys.add({ name: "Both", expiresAt: inDays(-2) }, { createdAt: NOW, revokedAt: NOW });
    // A key with the name of the keys of `npm run verify`, but with another lifetime.
    await keys.add({ name: "Verification" }, { createdAt: inDays(1) });
    await addKeys(await keys.database(), [createVerificationKey(inDays(2)).record]);
  });

  it.each([
    ["", ["CAFÉ Łódź & Co", "later", "Expired", "Both", "Verification"]],
    ["--state active", ["CAFÉ Łódź & Co", "later", "Verification"]],
    ["--state expired", ["Expired"]],
    ["--state revoked", ["Both"]],
    ["--plan free", ["CAFÉ Łódź & Co", "Both", "Verification"]],
    ["--plan enterprise", []],
    ["--name cafe\u0301", ["CAFÉ Łódź & Co"]],
    ["--name %", []],
    ["--name verification", ["Verification", "Verification"]],
    ["--plan pro --state active --name T", ["later"]],
  ])("%s shows the keys that match all filters, the oldest first", async (filters, names) => {
    vi.useFakeTimers({ toFake: ["Date"], now: NOW });
    const args = filters.split(" ").filter(Boolean);
    expect((await keys.json("list", ...args)).map(({ name }: any) => name)).toEqual(names);
    const { stdout, stderr } = await keys.run("list", ...args);
    const rows = tableCells(stdout).slice(1);
    expect(rows.map((cells) => cells.at(-1))).toEqual(names);
    expect(stderr).toBe(names.length === 0 ? "No matching keys.\n" : "");
  });

  it("and usage hide the keys of npm run verify, which deletes its own with its usage", async () => {
    const database = await keys.database();
    const own = createVerificationKey(inDays(3)).record;
    await addKeys(database, [own]);
    const running = (await keys.json("list", "--name", "verification")).at(-2);
    for (const { id } of [running, own]) {
      const values = `'${id}', '${text(0).slice(0, 10)}', 60, 9, 0, 0, 60, 60, 60, 1000, 0`;
      await keys.rows(`INSERT INTO key_usage VALUES (${values})`);
      for (const args of [["list"], ["usage"], ["usage", "--near"]]) {
        expect(await keys.text(...args)).not.toContain(id);
      }
    }
    const listed = await keys.json("list");
    await deleteVerificationKeys(database, own.id);
    expect(await keys.json("list")).toEqual(listed);
    expect(await keys.run("show", own.id)).toEqual(failure("no key has the id"));
    expect(await keys.json("show", running.id)).toMatchObject({ name: "Verification" });
    const left = await keys.rows("SELECT key_id AS id FROM key_usage");
    expect(left).toMatchObject([{ id: running.id }]);
  });
});

it("A key whose plan only a later version knows is shown as stored and hides no other key", async () => {
  const { id } = (await others.add({ name: "Of a later version" })).record;
  await others.rows(`UPDATE api_keys SET plan = 'team', per_day = 7 WHERE id = '${id}'`);
  const limits = { id, plan: "team", perMinute: null, perDay: 7 };
  for (const command of ["list", "usage"]) {
    const listed = await others.json(command);
    expect(listed).toContainEqual(expect.objectContaining({ id, plan: "team" }));
    expect(listed.map((key: any) => key.id)).toContain(zoo.record.id);
    expect(await others.text(command)).toContain(id);
  }
  expect(await others.json("show", id)).toMatchObject(limits);
  // An update would lose limits that this version does not know.
  expect(await others.run("update", id, "--name", "N")).toEqual(failure("does not know the plan"));
});

describe("keys show -", () => {
  it("finds a key by its present and former secrets, as list --ending, and prints no secret", async () => {
    const { key: former, record } = await others.add({ name: "Rotated" });
    const { key: current } = await others.json("rotate", record.id, "--grace", "0");
    for (const secret of [former, ` ${current}\r\n`]) {
      const json = await showInput([secret], "--json");
      const shown = await showInput([secret]);
      expect(JSON.parse(json.stdout).id).toBe(record.id);
      expect(shown).toMatchObject({ status: 0, stdout: expect.stringContaining(record.id) });
      expect(shown.stdout + json.stdout).not.toContain(secret.trim());
      for (const characters of [1, 4]) {
        const ending = secret.trim().slice(-characters).toUpperCase();
        const found = await others.json("list", "--ending", ending);
        expect(found.map(({ id }: any) => id)).toContain(record.id);
      }
    }
    const { id } = (await others.add({}, { lastFour: "abcd" })).record;
    const endsIn = async (ending: string) =>
      (await others.json("list", "--ending", ending)).some((key: any) => key.id === id);
    expect([await endsIn("bcd"), await endsIn("abc")]).toEqual([true, false]);
  });

  const none = "holds no API key of this service";
  it.each([
    ["nothing", none, () => [""]],
    ["a mistyped key", none, () => [zoo.key.slice(0, -1) + (zoo.key.endsWith("a") ? "b" : "a")]],
    ["two keys", none, () => [`${zoo.key}\n${zoo.key}`]],
    ["endless input", none, endless],
    ["an unknown key", "this store does not know the key", () => [generateSecret()]],
  ])("refuses %s: %s", async (_, message, input) => {
    const outcome = await showInput(input());
    expect(outcome).toEqual(failure(message));
    expect(outcome.stderr).not.toContain("sord_");
  });
});

it("show has the bans, the newest first, and reset lifts the ban in force", async () => {
  const { id } = zoo.record;
  const { orm } = await others.database();
  await orm.insert(keyBans).values([
    { keyId: id, number: 1, beganAt: after(-300), endsAt: after(-240) },
    { keyId: id, number: 2, beganAt: after(-60), endsAt: after(600) },
  ]);
  const banned = { state: "banned", bannedUntil: text(600) };
  const bans = [
    { number: 2, beganAt: text(-60), until: text(600), liftedAt: null },
    { number: 1, beganAt: text(-300), until: text(-240), liftedAt: null },
  ];
  expect(await others.json("show", id)).toMatchObject({ ...banned, bans });
  expect(await others.text("show", id)).toMatch(/The last bans:\n.*liftedAt\n +2 .*\n +1 /);
  expect(await others.json("list", "--state", "banned")).toMatchObject([{ id, ...banned }]);
  expect(await others.json("reset", id)).toMatchObject({ state: "active" });
  const { state, bannedUntil, bans: lifted } = await others.json("show", id);
  expect({ state, bannedUntil }).toEqual({ state: "active", bannedUntil: null });
  expect(lifted.map((ban: any) => ban.liftedAt)).toEqual([expect.stringMatching(TIME), null]);
});

describe("keys audit", () => {
  const newKey = async () => (await others.add({ name: "0" })).record.id;
  const trail = (id: string) =>
    others.rows(`SELECT * FROM key_changes WHERE key_id = '${id}' ORDER BY id`);

  it("records the old and the new value of every change, and nothing if nothing changed", async () => {
    const create = ["create", "--plan", "pro", "--name", "Zoo", "--expires", "2099-01-31"];
    const { id, key: secret } = await others.json(...create, "--near", "weur");
    const own = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "10000"];
    await others.json("update", id, ...own, "--name", "Chain", "--expires", "never");
    await others.json("update", id, "--name", "Chain", "--expires", "never");
    const { key: newerSecret, formerKeyEndsAt } = await others.json("rotate", id);
    await others.json("reset", id);
    const revoked = await others.json("revoke", id);
    const { revokedAt } = revoked;
    expect(await others.json("revoke", id)).toEqual(revoked);
    // Revocation ends the former key too.
    expect(revoked).toMatchObject({ state: "revoked", formerKeyEndsAt: null });
    await others.run("rotate", id);
    const common = { at: expect.stringMatching(TIME), actor: "Ada", keyId: id };
    const details = { revokedAt: { from: null, to: revokedAt } };
    const changes = await others.json("audit", id);
    expect(changes[0]).toEqual({ ...common, action: "revoke", details });
    const limits = "perMinute: 300 → 5, expiresAt: 2099-01-31T00:00:00.000Z → none";
    const first = "perMinute: 300, perDay: 10000, expiresAt: 2099-01-31T00:00:00.000Z";
    const rows = tableCells(await others.text("audit", id)).slice(1);
    expect(rows.map((cells) => cells.slice(2))).toEqual([
      ["revoke", id, `revokedAt: ${revokedAt}`],
      ["reset", id],
      ["rotate", id, `formerKeyEndsAt: ${formerKeyEndsAt}`],
      ["update", id, `name: Zoo → Chain, plan: pro → enterprise, ${limits}`],
      ["create", id, `name: Zoo, plan: pro, ${first}, locationHint: weur`],
    ]);
    const stored = JSON.stringify(await trail(id));
    expect(stored).not.toMatch(/[0-9a-f]{64}/);
    for (const shown of [secret, newerSecret]) expect(stored).not.toContain(shown.slice(5));
  });

  it("shows the newest changes first, filtered by key and number", async () => {
    const { record: one } = await others.add({ name: "One" });
    await others.add({ name: "Two" });
    const names = async (...args: string[]) =>
      (await others.json("audit", ...args)).map(({ details }: any) => details.name?.to);
    expect(await names("--limit", "2")).toEqual(["Two", "One"]);
    expect(await names(one.id)).toEqual(["One"]);
    expect(await others.text("audit", "--limit", "1")).toContain("--limit");
  });

  it("names the account and the machine by default, and refuses an actor that is no name", async () => {
    vi.stubEnv("STORE_ORDERS_ACTOR", "");
    vi.stubEnv("USER", "ada");
    const id = await newKey();
    expect(await trail(id)).toEqual([expect.objectContaining({ actor: `ada@${hostname()}` })]);
    vi.stubEnv("STORE_ORDERS_ACTOR", "a\nb");
    expect(await others.run("revoke", id)).toEqual(failure("STORE_ORDERS_ACTOR", 2));
    expect(await trail(id)).toHaveLength(1);
  });

  it("has no entry for a change that failed", async () => {
    const id = await newKey();
    const halfLimited = (key: KeyDetails) => ({ ...key, perDay: 5 });
    const failing = changeKey(await others.database(), id, "update", halfLimited);
    await expect(failing).rejects.toThrow("enterprise_has_its_own_limits");
    expect(await trail(id)).toHaveLength(1);
  });

  it.each([
    ["rewritten", "UPDATE key_changes SET actor = 'nobody'"],
    ["deleted", "DELETE FROM key_changes"],
    ["rewritten", "INSERT OR REPLACE INTO key_changes SELECT * FROM key_changes"],
  ])("cannot be %s with: %s", async (refusal, statement) => {
    const changing = (await others.database()).transaction([sql.raw(statement)]);
    await expect(changing).rejects.toThrow(`never ${refusal}`);
  });
});
