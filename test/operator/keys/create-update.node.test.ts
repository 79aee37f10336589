import { beforeAll, describe, expect, it } from "vitest";
import { hashSecret, isSecret } from "../../../src/rules/keys/secret.ts";
import { failure } from "../in-process.ts";
import { KeysCommand } from "./keys-command.ts";

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const OWN = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "1000000000"];

const keys = new KeysCommand();
let free: any;
let enterprise: any;

beforeAll(async () => {
  free = await keys.json("create", "--plan", "free", "--name", "Łódź 'n' \"co\"");
  enterprise = await keys.json("create", "--name", "Chain", ...OWN);
});

async function stored(id: string) {
  return (await keys.rows(`SELECT * FROM api_keys WHERE id = '${id}'`))[0];
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
    expect(row?.hash).toBe(hashSecret(free.key));
    expect(JSON.stringify(row)).not.toContain(free.key);
    const { key: _, ...details } = free;
    expect(await keys.json("list")).toContainEqual(details);
    const unused = { lastUsedOn: null, reportedAt: null, bans: [] };
    expect(await keys.json("show", free.id)).toEqual({ ...details, ...unused });
  });

  it("prints nothing but the secret on stdout, and says that it is shown once", async () => {
    const create = ["create", "--plan", "pro", "--name", "P", "--expires", "2099-01-31"];
    const { stdout, stderr } = await keys.run(...create);
    expect(stdout.trimEnd()).toSatisfy(isSecret);
    expect(stderr).toContain("not shown again");
    expect(stderr).toMatch(/^expires +2099-01-31 00:00 UTC$/m);
  });

  it("stores the region of a key, which later changes keep", async () => {
    const create = ["create", "--plan", "pro", "--name", "Near", "--near", "weur"];
    const { id, locationHint } = await keys.json(...create);
    expect(locationHint).toBe("weur");
    await keys.json("update", id, "--plan", "free");
    await keys.json("rotate", id);
    expect(await keys.json("show", id)).toMatchObject({ plan: "free", locationHint: "weur" });
    expect(await keys.text("show", id)).toMatch(/near +weur/);
    const [, , created] = await keys.json("audit", id);
    expect(created.details).toMatchObject({ locationHint: { from: null, to: "weur" } });
  });
});

describe("keys update", () => {
  it("changes the settings that the options name, and keeps all other settings", async () => {
    const name = "😀".repeat(100);
    const args = ["--name", name, "--expires", "2099-12-31T23:59:59.5000Z"];
    const updated = await keys.json("update", enterprise.id, "--per-minute", "7", ...args);
    const { key: _, ...details } = enterprise;
    const changes = { name, perMinute: 7, expiresAt: "2099-12-31T23:59:59.500Z" };
    expect(updated).toEqual({ ...details, ...changes });
    const never = await keys.json("update", enterprise.id, "--expires", "never");
    expect(never).toEqual({ ...details, ...changes, expiresAt: null });
    expect(await stored(enterprise.id)).toMatchObject({ revision: 2, resets: 0 });
  });

  it("changes a key to Enterprise and back to a plan with fixed limits", async () => {
    const { id } = (await keys.add({ plan: "business" })).record;
    expect(await keys.json("update", id, ...OWN)).toMatchObject({ perMinute: 5 });
    const limits = { plan: "pro", perMinute: 300, perDay: 10_000 };
    expect(await keys.json("update", id, "--plan", "pro")).toMatchObject(limits);
    expect(await stored(id)).toMatchObject({ per_minute: null, per_day: null, revision: 2 });
  });
});

it.each<[status: number, line: string, reason: string]>([
  [
    1,
    "create --plan pro --name L --expires 2020-01-31T12:00:00+02:00",
    "10:00:00.000Z is in the past",
  ],
  [1, "update FREE --expires 2020-01-31", "2020-01-31T00:00:00.000Z is in the past"],
  [2, "update FREE --plan enterprise --per-day 9", "--per-minute and --per-day"],
  [2, "update FREE --per-minute 1000", "the plan free has fixed limits"],
  ...["show", "usage", "audit", "revoke", "reset", "rotate", "update --name X"].map(
    (command): [number, string, string] => {
      const [name, ...options] = command.split(" ");
      const message = 'no key has the id "key_nobody"; `npm run keys -- list --persist-to ';
      return [1, [name, "key_nobody", "--json", ...options].join(" "), message];
    },
  ),
])("with status %i, keys refuses %s", async (status, line, reason) => {
  const args = line.replace("FREE", free.id).split(" ");
  expect(await keys.run(...args)).toEqual(failure(reason, status));
});

it("keys warns of a limit of the day below that of the minute", async () => {
  const limits = ["--plan", "enterprise", "--per-minute", "5000", "--per-day", "100"];
  const created = await keys.run("create", "--name", "Odd", ...limits);
  const { record } = await keys.add();
  const updated = await keys.run("update", record.id, ...limits);
  for (const { status, stderr } of [created, updated]) {
    expect(status).toBe(0);
    expect(stderr).toContain("warning: the day ends first: after 100 requests");
  }
});

describe("keys revoke and reset", () => {
  it("keep the time of the first revocation", async () => {
    const { id } = (await keys.add()).record;
    const first = await keys.json("revoke", id);
    expect(first.revokedAt).toMatch(TIME);
    expect(await keys.json("revoke", id)).toEqual(first);
    expect(await keys.text("show", id)).toContain("revoked");
  });

  it("count resets for the limiter and change nothing else", async () => {
    const { key: _, ...details } = free;
    expect(await keys.json("reset", free.id)).toEqual(details);
    expect(await keys.json("reset", free.id)).toEqual(details);
    expect(await stored(free.id)).toMatchObject({ resets: 2, revision: 2 });
  });
});
