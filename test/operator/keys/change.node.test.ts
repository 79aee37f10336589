import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import * as databases from "../../../src/operator/database/database.ts";
import * as keyChanges from "../../../src/operator/keys/key-changes.ts";
import { hashSecret, isSecret } from "../../../src/rules/keys/secret.ts";
import { failure } from "../in-process.ts";
import { KeysCommand, TIME } from "./keys-command.ts";

const NOW = new Date("2030-01-01T12:00:00.000Z");
const inHours = (hours: number) => new Date(NOW.getTime() + hours * 3_600_000);
const stopClock = () => void vi.useFakeTimers({ toFake: ["Date"], now: NOW });
const OWN = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "1000000000"];

const keys = new KeysCommand();
let free: any;
let enterprise: any;

beforeAll(async () => {
  free = await keys.json("create", "--plan", "free", "--name", "Łódź 'n' \"co\"");
  enterprise = await keys.json("create", "--name", "Chain", ...OWN);
});
afterEach(() => void vi.useRealTimers());

async function stored(id: string) {
  return (await keys.rows(`SELECT * FROM api_keys WHERE id = '${id}'`))[0];
}

/** Returns the hash of a key's secret, then the hash and the end of each former secret. */
async function hashes(id: string) {
  const former = await keys.rows(`SELECT * FROM former_key_hashes WHERE key_id = '${id}'`);
  const ends = former.map(({ hash, ends_at: endsAt }) => [hash, new Date(endsAt)]);
  return [(await stored(id)).hash, ...ends];
}

describe("keys create", () => {
  it("prints the secret with the key, and stores only its hash", async () => {
    expect(free).toEqual({
      id: expect.stringMatching(/^key_/),
      key: expect.toSatisfy(isSecret),
      plan: "free",
      name: "Łódź 'n' \"co\"",
      perMinute: 60,
      perDay: 1_000,
      createdAt: expect.stringMatching(TIME),
      expiresAt: null,
      locationHint: null,
      revokedAt: null,
      formerKeyEndsAt: null,
      lastFour: free.key.slice(-4),
      state: "active",
      bannedUntil: null,
    });
    expect(enterprise).toMatchObject({ plan: "enterprise", perMinute: 5, perDay: 1_000_000_000 });
    const row = await stored(free.id);
    expect(row.hash).toBe(hashSecret(free.key));
    expect(JSON.stringify(row)).not.toContain(free.key);
    const { key: _, ...details } = free;
    expect(await keys.json("list")).toContainEqual(details);
    expect(await keys.json("show", free.id)).toEqual({ ...details, bans: [] });
  });

  it("prints nothing but the secret on stdout, says that it is shown once, and keeps the region", async () => {
    const options = ["--expires", "2099-01-31", "--near", "weur"];
    const created = await keys.run("create", "--plan", "pro", "--name", "P", ...options);
    expect(created.stdout.trimEnd()).toSatisfy(isSecret);
    expect(created.stderr).toContain("not shown again");
    expect(created.stderr).toMatch(/^expires at +2099-01-31 00:00 UTC\nlocation hint +weur$/m);
    const id = /^id +(\S+)$/m.exec(created.stderr)?.[1] ?? "";
    await keys.json("update", id, "--plan", "free");
    await keys.json("rotate", id);
    expect(await keys.json("show", id)).toMatchObject({ plan: "free", locationHint: "weur" });
  });
});

it("update changes the settings that the options name and keeps all others, as reset does", async () => {
  const { key: _, ...details } = enterprise;
  const update = (...args: string[]) => keys.json("update", enterprise.id, ...args);
  const name = "😀".repeat(100);
  const expires = ["--expires", "2099-12-31T23:59:59.5000Z"];
  const changes = { name, perMinute: 7, expiresAt: "2099-12-31T23:59:59.500Z" };
  const updated = await update("--per-minute", "7", "--name", name, ...expires);
  expect(updated).toEqual({ ...details, ...changes });
  const never = { ...details, ...changes, expiresAt: null };
  expect(await update("--expires", "never")).toEqual(never);
  const pro = { plan: "pro", perMinute: 300, perDay: 10_000 };
  expect(await update("--plan", "pro")).toEqual({ ...never, ...pro });
  expect(await stored(enterprise.id)).toMatchObject({ per_minute: null, per_day: null });
  expect(await update(...OWN)).toEqual({ ...never, perMinute: 5 });
  expect(await stored(enterprise.id)).toMatchObject({ revision: 4, resets: 0 });
  for (const resets of [1, 2]) {
    expect(await keys.json("reset", enterprise.id)).toEqual({ ...never, perMinute: 5 });
    expect(await stored(enterprise.id)).toMatchObject({ revision: 4 + resets, resets });
  }
});

it.each<[status: number, line: string, reason: string]>([
  [1, "create --plan pro --name L --expires 2020-01-31T12:00:00+02:00", "T10:00:00.000Z is in the"],
  [1, "update FREE --expires 2020-01-31", "2020-01-31T00:00:00.000Z is in the past"],
  [2, "update FREE --plan enterprise --per-day 9", "--per-minute and --per-day"],
  [2, "update FREE --per-minute 1000", "the plan free has fixed limits"],
  ...["show", "usage", "audit", "revoke", "reset", "rotate", "update --name X"].map(
    (command): [number, string, string] => {
      const message = 'no key has the id "key_nobody"; `npm run keys -- list --persist-to ';
      return [1, `${command} --json key_nobody`, message];
    },
  ),
])("with status %i, keys refuses %s", async (status, line, reason) => {
  const args = line.replace("FREE", free.id).split(" ");
  expect(await keys.run(...args)).toEqual(failure(reason, status));
});

it("update changes the name of an expired key", async () => {
  const { id } = (await keys.add({ expiresAt: new Date("2026-01-31") })).record;
  expect(await keys.json("update", id, "--name", "Late")).toMatchObject({ name: "Late" });
});

it("create and update warn of a limit of the day below that of the minute", async () => {
  const odd = ["--plan", "enterprise", "--per-minute", "5000", "--per-day", "100"];
  const { id } = (await keys.add()).record;
  for (const command of [
    ["create", "--name", "Odd"],
    ["update", id],
  ]) {
    expect(await keys.text(...command, ...odd)).toContain("after 100 requests");
  }
  expect(await keys.text("update", free.id, "--name", "Even")).not.toContain("warning");
});

describe("keys rotate", () => {
  it("changes only the secret, and keeps the former one for the grace, 24 hours by default", async () => {
    const { key: former, record: key } = await keys.add();
    const { record: other } = await keys.add();
    stopClock();
    const { formerKeyEndsAt } = await keys.json("rotate", other.id);
    expect(formerKeyEndsAt).toBe(inHours(24).toISOString());
    const before = await keys.json("show", key.id);
    const { key: secret, ...rotated } = await keys.json("rotate", key.id, "--grace", "90m");
    expect(secret).toSatisfy(isSecret);
    const ends = { lastFour: secret.slice(-4), formerKeyEndsAt: inHours(1.5).toISOString() };
    expect(await keys.json("show", key.id)).toEqual({ ...before, ...ends });
    expect({ ...before, ...ends }).toMatchObject(rotated);
    expect(await hashes(key.id)).toEqual([hashSecret(secret), [hashSecret(former), inHours(1.5)]]);
  });

  it("ends still earlier secrets no later than the former one, with --grace 0 all at once", async () => {
    const { record: key } = await keys.add();
    stopClock();
    const endsAfter = async (grace: string) => {
      await keys.text("rotate", key.id, "--grace", grace);
      const ends = (await hashes(key.id)).slice(1).map(([, end]) => (end - NOW.getTime()) / 60_000);
      return ends.toSorted((one, other) => one - other);
    };
    expect(await endsAfter("2h")).toEqual([120]);
    expect(await endsAfter("90d")).toEqual([120, 90 * 24 * 60]);
    const shown = (await keys.json("show", key.id)).formerKeyEndsAt;
    expect(shown).toBe(inHours(90 * 24).toISOString());
    expect(await endsAfter("1h")).toEqual([60, 60, 60]);
    expect(await endsAfter("0")).toEqual([0, 0, 0, 0]);
  });

  it("prints the secret that it stored, if others change the key meanwhile, twice", async () => {
    const { key: former, record: key } = await keys.add();
    const { findApiKey } = keyChanges;
    const overtaken: typeof findApiKey = async (...args) => {
      const read = await findApiKey(...args);
      await keys.rows(`UPDATE api_keys SET revision = revision + 1 WHERE id = '${key.id}'`);
      return read;
    };
    const reading = vi.spyOn(keyChanges, "findApiKey");
    // A failed attempt reads the key twice, so changes after three reads make two attempts fail.
    for (let reads = 0; reads < 3; reads += 1) reading.mockImplementationOnce(overtaken);
    const { key: secret } = await keys.json("rotate", key.id);
    const ends = [hashSecret(former), expect.any(Date)];
    expect(await hashes(key.id)).toEqual([hashSecret(secret), ends]);
    expect(await stored(key.id)).toMatchObject({ revision: 4 });
    expect(await keys.json("audit", key.id)).toHaveLength(2);
  });

  it.each([
    ["expired", { expiresAt: NOW }],
    ["revoked", { revokedAt: NOW }],
  ])("refuses a key that is %s, and changes nothing", async (state, fields) => {
    const { key: secret, record: key } = await keys.add({}, fields);
    stopClock();
    expect(await keys.run("rotate", key.id)).toEqual(failure(`the key is ${state}`));
    expect(await hashes(key.id)).toEqual([hashSecret(secret)]);
  });
});

it("times and states are the database's, whatever the clock of this machine says", async () => {
  vi.mocked(databases.databaseTime).mockRestore();
  const now = Date.now();
  const isNow = (time: string) => expect(Math.abs(Date.parse(time) - now)).toBeLessThan(60_000);
  const soon = ["--expires", new Date(now + 60_000).toISOString()];
  for (const minutes of [-5, 5]) {
    vi.useFakeTimers({ toFake: ["Date"], now: now + minutes * 60_000 });
    const created = await keys.json("create", "--plan", "free", "--name", "A", ...soon);
    const { id, createdAt, state } = created;
    expect(state).toBe("active");
    isNow(createdAt);
    expect(await keys.json("update", id, "--name", "B")).toMatchObject({ state });
    isNow((await keys.json("rotate", id, "--grace", "0")).formerKeyEndsAt);
    isNow((await keys.json("revoke", id)).revokedAt);
    for (const { at } of await keys.json("audit", id)) isNow(at);
  }
});
