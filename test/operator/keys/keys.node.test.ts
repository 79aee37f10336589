import { hostname } from "node:os";
import { Readable } from "node:stream";
import { sql } from "drizzle-orm";
import stringWidth from "string-width";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as databases from "../../../src/store/database.ts";
import { addKeys, changeKey } from "../../../src/store/keys/change-key.ts";
import { createVerificationKey } from "../../../src/store/keys/verification-key.ts";
import { generateSecret } from "../../../src/store/keys/new-secret.ts";
import { hashSecret, isSecret } from "../../../src/rules/keys/secret.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { keyBans } from "../../../src/schema/keys.ts";
import { failure, runInProcess } from "../commands.ts";
import { KeysCommand, TIME } from "./keys-command.ts";

const NOW = new Date();
const after = (seconds: number) => new Date(NOW.getTime() + seconds * 1_000);
const inHours = (hours: number) => after(hours * 3_600);
const inDays = (days: number) => inHours(days * 24);
const text = (seconds: number) => after(seconds).toISOString();
const stopClock = () => void vi.useFakeTimers({ toFake: ["Date"], now: NOW });
const OWN = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "1000000000"];

/** The store of the tests of `keys list`. */
const listed = new KeysCommand();
const keys = new KeysCommand();

beforeEach(() => void vi.stubEnv("STORE_ORDERS_ACTOR", "Ada"));
afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

async function stored(id: string) {
  return (await keys.rows(`SELECT * FROM api_keys WHERE id = '${id}'`))[0];
}

/** Returns the hash of a key's secret, then the hash and the end of each former secret. */
async function hashes(id: string) {
  const former = await keys.rows(
    `SELECT * FROM former_key_hashes WHERE key_id = '${id}' ORDER BY ends_at`,
  );
  const ends = former.map(({ hash, ends_at: endsAt }) => [hash, new Date(endsAt)]);
  return [(await stored(id)).hash, ...ends];
}

it("create prints the secret with the key, or alone, and stores only its hash", async () => {
  const name = "Łódź 'n' \"co\"";
  const { key, ...record } = await keys.json("create", "--plan", "free", "--name", name);
  expect(key).toSatisfy(isSecret);
  const never = { expiresAt: null, revokedAt: null, formerKeyEndsAt: null, bannedUntil: null };
  const settings = { name, plan: "free", perMinute: 60, perDay: 1_000, locationHint: null };
  expect(record).toEqual({
    id: expect.stringMatching(/^key_/),
    ...settings,
    ...never,
    createdAt: expect.stringMatching(TIME),
    lastFour: key.slice(-4),
    state: "active",
  });
  const row = await stored(record.id);
  expect(row.hash).toBe(hashSecret(key));
  expect(JSON.stringify(row)).not.toContain(key.slice(5, -4));
  expect(await keys.json("list")).toEqual([record]);
  expect(await keys.json("show", record.id)).toEqual({ ...record, bans: [] });

  const options = ["--expires", "2099-01-31", "--near", "weur"];
  const { stdout, stderr } = await keys.run("create", "--plan=pro", "--name=P", ...options);
  expect(stdout.slice(0, -1)).toSatisfy(isSecret);
  expect(stderr).toContain("not shown again");
  const id = /^id +(\S+)$/m.exec(stderr)?.[1] ?? "";
  const expiresAt = "2099-01-31T00:00:00.000Z";
  expect(await keys.json("show", id)).toMatchObject({ expiresAt, locationHint: "weur" });
});

it("update changes only what the options name, and reset nothing else either", async () => {
  const { key: _, ...details } = await keys.json("create", "--name", "Chain", ...OWN);
  const { id } = details;
  const name = "😀".repeat(100);
  const expires = ["--expires", "2099-12-31T23:59:59.5000+02:00"];
  const changes = { name, perMinute: 7, expiresAt: "2099-12-31T21:59:59.500Z" };
  const updated = await keys.json("update", id, "--per-minute=7", "--name", name, ...expires);
  expect(updated).toEqual({ ...details, ...changes });
  const never = { ...details, ...changes, expiresAt: null };
  expect(await keys.json("update", id, "--expires", "never")).toEqual(never);
  const pro = { plan: "pro", perMinute: 300, perDay: 10_000 };
  expect(await keys.json("update", id, "--plan", "pro")).toEqual({ ...never, ...pro });
  expect(await stored(id)).toMatchObject({ per_minute: null, per_day: null });
  const own = { ...never, perMinute: 5 };
  expect(await keys.json("update", id, ...OWN)).toEqual(own);
  expect(await stored(id)).toMatchObject({ revision: 4, resets: 0 });
  expect(await keys.json("reset", id)).toEqual(own);
  expect(await stored(id)).toMatchObject({ revision: 5, resets: 1 });
  const { record: expired } = await keys.add({ expiresAt: new Date("2026-01-31") });
  expect(await keys.run("rotate", expired.id)).toEqual(failure("the key is expired"));
  expect(await keys.json("update", expired.id, "--name=Late")).toMatchObject({ name: "Late" });
});

it("refuses a past expiry, limits that do not fit the plan, and an unknown id", async () => {
  const { id } = (await keys.add()).record;
  const ofOneKey = "show,usage,audit,revoke,reset,rotate,update --name X,undo --since 2026-01-31";
  const nobody = 'no key has the id "key_nobody"; `npm run keys -- list --persist-to ';
  for (const [status, line, reason] of [
    [1, "create --plan pro --name L --expires 2020-01-31T12:00:00+02:00", "T10:00:00.000Z is in"],
    [1, `update ${id} --expires 2020-01-31`, "2020-01-31T00:00:00.000Z is in the past"],
    [2, `update ${id} --expires 9999-12-31T23:59:59-01:00`, "Expected a date"],
    [2, `update ${id} --plan enterprise --per-day 9`, "--per-minute and --per-day"],
    [2, `update ${id} --per-minute 1000`, "the plan free has fixed limits"],
    ...ofOneKey.split(",").map((command) => [1, `${command} key_nobody --json`, nobody] as const),
  ] as const) {
    expect(await keys.run(...line.split(" ")), line).toEqual(failure(reason, status));
  }
  expect(await stored(id)).toMatchObject({ revision: 0 });
});

it("revoke takes several ids, and revokes none if one is unknown", async () => {
  const [one, other] = [(await keys.add()).record.id, (await keys.add()).record.id];
  const unknown = failure('no key has the id "key_nobody"');
  expect(await keys.run("revoke", one, "key_nobody", other)).toEqual(unknown);
  expect(await keys.json("show", one)).toMatchObject({ state: "active" });
  const revoked = [one, other].map((id) => ({ id, state: "revoked" }));
  expect(await keys.json("revoke", one)).toMatchObject(revoked[0]!);
  expect(await keys.json("revoke", one, other, one)).toMatchObject(revoked);
});

describe("keys rotate", () => {
  it("changes only the secret, and keeps the former one for 24 hours by default", async () => {
    const { key: former, record: key } = await keys.add();
    stopClock();
    const before = await keys.json("show", key.id);
    const { key: secret, ...rotated } = await keys.json("rotate", key.id);
    const ends = { lastFour: secret.slice(-4), formerKeyEndsAt: inHours(24).toISOString() };
    expect(secret).toSatisfy(isSecret);
    expect({ ...rotated, bans: [] }).toEqual({ ...before, ...ends });
    expect(await hashes(key.id)).toEqual([hashSecret(secret), [hashSecret(former), inHours(24)]]);
  });

  it("ends earlier secrets no later than the former one, and with --grace 0 keeps none, which a clock that is set back would revive", async () => {
    const { id } = (await keys.add()).record;
    stopClock();
    for (const [grace, ends] of [
      ["90m", [1.5]],
      ["90d", [1.5, 2160]],
      ["1h", [1, 1, 1]],
      ["0", []],
    ] as const) {
      const { formerKeyEndsAt } = await keys.json("rotate", id, "--grace", grace);
      expect((await hashes(id)).slice(1).map(([, end]) => end)).toEqual(ends.map(inHours));
      const last = ends.at(-1);
      expect(formerKeyEndsAt).toBe(last === undefined ? null : inHours(last).toISOString());
    }
  });

  it("several at the same time each print a secret that they stored", async () => {
    const { key: former, record } = await keys.add();
    const rotate = (grace: string) => keys.json("rotate", record.id, "--grace", grace);
    const rotated = await Promise.all(["1h", "2h", "3h"].map(rotate));
    const secrets = [former, ...rotated.map(({ key }) => key)];
    const found = (await hashes(record.id)).flat().filter((hash) => typeof hash === "string");
    expect(found.toSorted()).toEqual(secrets.map(hashSecret).toSorted());
    expect(await stored(record.id)).toMatchObject({ revision: 3 });
    expect(await keys.json("audit", record.id)).toHaveLength(4);
  });
});

it("list shows the keys that match all filters, the oldest first", async () => {
  stopClock();
  const pro = { plan: "pro", createdAt: inDays(-7) } as const;
  await listed.add({ ...pro, name: "later", expiresAt: inDays(31) });
  await listed.add({ name: "CAFÉ Łódź & Co", createdAt: inDays(-9) });
  await listed.add({ ...pro, name: "Expired", createdAt: inDays(-6), expiresAt: NOW });
  await listed.add({ name: "Both", expiresAt: inDays(-2), createdAt: NOW, revokedAt: NOW });
  for (const [filters, names] of [
    ["", ["CAFÉ Łódź & Co", "later", "Expired", "Both"]],
    ["--state active", ["CAFÉ Łódź & Co", "later"]],
    ["--state expired", ["Expired"]],
    ["--state revoked", ["Both"]],
    ["--name cafe\u0301", ["CAFÉ Łódź & Co"]],
    ["--plan pro --state active --name T", ["later"]],
  ] as const) {
    const args = ["list", ...filters.split(" ").filter(Boolean)];
    expect(await listed.json(...args), filters).toMatchObject(names.map((name) => ({ name })));
    const { stdout } = await listed.run(...args);
    expect(stdout.trim().split("\n")).toHaveLength(names.length + 1);
  }
  const none = { status: 0, stdout: "", stderr: "No matching keys.\n" };
  expect(await listed.run("list", "--plan", "business")).toEqual(none);
});

it("list leaves out the keys of verifications, unless their name is given", async () => {
  const { record } = createVerificationKey(inDays(2));
  await addKeys(await listed.database(), [record], "test");
  expect(JSON.stringify(await listed.json("list"))).not.toContain(record.id);
  expect(await listed.json("list", "--name", "verif")).toMatchObject([{ id: record.id }]);
});

it("tables fit the terminal: names are cut, and long details stand below their rows", async () => {
  const name = `${"家".repeat(30)} & ${"x".repeat(50)}`;
  const { id } = await keys.json("create", "--plan=pro", `--name=${name}`, "--expires=2099-01-31");
  const inTerminal = async (...args: string[]) => {
    const line = [...args, "--persist-to", keys.path];
    const { stdout } = await runInProcess(keysProgram(), line, "", { columns: 80 });
    for (const each of stdout.split("\n")) expect(stringWidth(each)).toBeLessThanOrEqual(80);
    return stdout;
  };
  expect(await inTerminal("list")).toMatch(/ 2099-01-31 {2}家+…$/m);
  expect((await inTerminal("audit", id)).replaceAll(/\s+/g, "")).toContain(
    `${id}name:${name.replaceAll(" ", "")},plan:pro`,
  );
  expect((await keys.run("list")).stdout).toContain(name);
});

describe("keys show -", () => {
  const line = ["show", "-", "--persist-to", keys.path];
  const showInput = (input: Iterable<string>) =>
    runInProcess(keysProgram(), line, Readable.from(Iterator.from(input)));

  function* endless(): Generator<string, never> {
    for (;;) yield "x".repeat(1_000_000);
  }

  it("finds a key by any of its secrets, as list --ending, and prints no secret", async () => {
    const { key: former, record } = await keys.add();
    const { key: current } = await keys.json("rotate", record.id, "--grace", "1h");
    for (const secret of [former, ` ${current}\r\n`]) {
      const { status, stdout, stderr } = await showInput([secret]);
      expect([status, stdout]).toEqual([0, expect.stringContaining(record.id)]);
      expect(stdout + stderr).not.toContain(secret.trim());
      const ending = secret.trim().slice(-4).toUpperCase();
      expect(await keys.json("list", "--ending", ending)).toMatchObject([{ id: record.id }]);
    }
  });

  it("reads a line from a terminal without showing it, and ends with Ctrl+D", async () => {
    const { key, record } = await keys.add();
    const ask = (input: string) =>
      runInProcess(keysProgram(), line, Readable.from([input]), { isTerminal: true });
    const found = await ask(`${key}\r`);
    expect(found).toMatchObject({ status: 0, stdout: expect.stringContaining(record.id) });
    expect(found.stdout + found.stderr).not.toContain(key.slice(5, 15));
    expect(await ask("\u0004")).toEqual(failure("holds no API key"));
  });

  it("refuses anything but one known key, and does not repeat it", async () => {
    const { key } = await keys.add();
    const none = "holds no API key of this service";
    for (const [message, input] of [
      [none, [key.slice(0, -1) + (key.endsWith("a") ? "b" : "a")]],
      [none, [`${key}\n${key}`]],
      [none, endless()],
      ["this store does not know the key", [generateSecret()]],
    ] as const) {
      const outcome = await showInput(input);
      expect(outcome).toEqual(failure(message));
      expect(outcome.stderr).not.toContain("sord_");
    }
  });
});

it("show has the bans, the newest first, and reset lifts the ban in force", async () => {
  const { id } = (await keys.add()).record;
  const { orm } = await keys.database();
  await orm.insert(keyBans).values([
    { keyId: id, number: 1, beganAt: after(-300), endsAt: after(-240) },
    { keyId: id, number: 2, beganAt: after(-60), endsAt: after(600) },
  ]);
  const banned = { state: "banned", bannedUntil: text(600) };
  const past = { number: 1, beganAt: text(-300), until: text(-240), liftedAt: null };
  const bans = [{ number: 2, beganAt: text(-60), until: text(600), liftedAt: null }, past];
  expect(await keys.json("show", id)).toMatchObject({ ...banned, bans });
  expect(await keys.json("list", "--state", "banned")).toMatchObject([{ id, ...banned }]);
  const free = { state: "active", bannedUntil: null };
  expect(await keys.json("reset", id)).toMatchObject(free);
  const lifted = [{ number: 2, liftedAt: expect.stringMatching(TIME) }, past];
  expect(await keys.json("show", id)).toMatchObject({ ...free, bans: lifted });
});

describe("keys audit", () => {
  it("records old and new values of every change, and nothing if nothing changed", async () => {
    const create = ["create", "--plan", "pro", "--name", "Zoo", "--expires", "2099-01-31"];
    const { id, key: secret } = await keys.json(...create);
    const own = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "10000"];
    for (let times = 0; times < 2; times += 1) {
      await keys.json("update", id, ...own, "--name", "Chain", "--expires", "never");
    }
    const { key: newerSecret, formerKeyEndsAt } = await keys.json("rotate", id);
    await keys.json("reset", id);
    const revoked = await keys.json("revoke", id);
    expect(await keys.json("revoke", id)).toEqual(revoked);
    // Revocation ends the former key too.
    expect(revoked).toMatchObject({ state: "revoked", formerKeyEndsAt: null });
    expect(await keys.run("rotate", id)).toEqual(failure("the key is revoked"));
    const expiry = "2099-01-31T00:00:00.000Z";
    const others = `perDay: 10000, expiresAt: ${expiry}`;
    const limits = `perMinute: 300 → 5, expiresAt: ${expiry} → none`;
    const lines = (await keys.run("audit", id)).stdout.trimEnd().split("\n").slice(1);
    expect(lines.map((line) => line.split(/ {2,}/).slice(1))).toEqual([
      ["Ada", "revoke", id, `revokedAt: ${revoked.revokedAt}`],
      ["Ada", "reset", id],
      ["Ada", "rotate", id, `formerKeyEndsAt: ${formerKeyEndsAt}`],
      ["Ada", "update", id, `name: Zoo → Chain, plan: pro → enterprise, ${limits}`],
      ["Ada", "create", id, `name: Zoo, plan: pro, perMinute: 300, ${others}`],
    ]);
    const details = { revokedAt: { from: null, to: revoked.revokedAt } };
    const newest = { at: expect.stringMatching(TIME), actor: "Ada", action: "revoke", keyId: id };
    expect(await keys.json("audit", id, "--limit", "1")).toEqual([{ ...newest, details }]);
    const trail = JSON.stringify(await keys.rows("SELECT * FROM key_changes"));
    expect(trail).not.toMatch(/[0-9a-f]{64}/);
    for (const shown of [secret, newerSecret]) expect(trail).not.toContain(shown.slice(5));
  });

  it("has no entry for a change that failed, and no entry changes or disappears", async () => {
    vi.stubEnv("STORE_ORDERS_ACTOR", "");
    vi.stubEnv("USER", "ada");
    const { id } = await keys.json("create", "--plan", "free", "--name", "Zoo");
    const database = await keys.database();
    const operation = { action: "update", actor: "ada" } as const;
    const failing = changeKey(database, id, operation, (key) => ({ ...key, perDay: 5 }));
    await expect(failing).rejects.toThrow("enterprise_has_its_own_limits");
    expect(await keys.json("audit", id)).toMatchObject([{ actor: `ada@${hostname()}` }]);
    await database.orm.run(sql`DELETE FROM api_keys WHERE id = ${id}`);
    expect(await keys.json("audit", id), "of a key that is gone").toHaveLength(1);
    for (const statement of ["DELETE FROM", "INSERT OR REPLACE INTO key_changes SELECT * FROM"]) {
      const changing = database.transaction([sql.raw(`${statement} key_changes`)]);
      await expect(changing).rejects.toThrow(/never (?:rewritten|deleted)/);
    }
  });
});

// This test comes last: the others need the clock that it replaces.
it("times and states are the database's, whatever the clock of this machine says", async () => {
  vi.mocked(databases.databaseTime).mockRestore();
  const now = Date.now();
  const isNow = (time: string) => expect(Math.abs(Date.parse(time) - now)).toBeLessThan(60_000);
  const soon = ["--expires", new Date(now + 60_000).toISOString()];
  for (const minutes of [-5, 5]) {
    vi.useFakeTimers({ toFake: ["Date"], now: now + minutes * 60_000 });
    const created = await keys.json("create", "--plan", "free", "--name", "A", ...soon);
    expect(created.state).toBe("active");
    isNow(created.createdAt);
    const { formerKeyEndsAt } = await keys.json("rotate", created.id, "--grace", "24h");
    isNow(new Date(Date.parse(formerKeyEndsAt) - 86_400_000).toISOString());
    isNow((await keys.json("revoke", created.id)).revokedAt);
    for (const { at } of await keys.json("audit", created.id)) isNow(at);
  }
});
