import { afterEach, describe, expect, it, vi } from "vitest";
import * as databases from "../../../src/store/database.ts";
import { hashSecret, isSecret } from "../../../src/rules/keys/secret.ts";
import { failure } from "../commands.ts";
import { KeysCommand, TIME } from "./keys-command.ts";

const NOW = Date.parse("2030-01-01T12:00:00.000Z");
const inHours = (hours: number) => new Date(NOW + hours * 3_600_000);
const stopClock = () => void vi.useFakeTimers({ toFake: ["Date"], now: NOW });
const OWN = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "1000000000"];

const keys = new KeysCommand();
afterEach(() => void vi.useRealTimers());

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
