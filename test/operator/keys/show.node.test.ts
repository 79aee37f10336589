import { hostname } from "node:os";
import { Readable } from "node:stream";
import { sql } from "drizzle-orm";
import stringWidth from "string-width";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { addKeys, changeKey } from "../../../src/store/keys/change-key.ts";
import { createVerificationKey } from "../../../src/store/keys/verification-key.ts";
import { generateSecret } from "../../../src/store/keys/new-secret.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { keyBans } from "../../../src/schema/keys.ts";
import { failure, runInProcess } from "../commands.ts";
import { KeysCommand, TIME } from "./keys-command.ts";

const NOW = new Date();
const after = (seconds: number) => new Date(NOW.getTime() + seconds * 1_000);
const inDays = (days: number) => after(days * 86_400);
const text = (seconds: number) => after(seconds).toISOString();

/** The store of the tests of `keys list`. */
const listed = new KeysCommand();
const keys = new KeysCommand();

beforeEach(() => void vi.stubEnv("STORE_ORDERS_ACTOR", "Ada"));
afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

it("list shows the keys that match all filters, the oldest first", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
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
    const stored = JSON.stringify(await keys.rows("SELECT * FROM key_changes"));
    expect(stored).not.toMatch(/[0-9a-f]{64}/);
    for (const shown of [secret, newerSecret]) expect(stored).not.toContain(shown.slice(5));
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
