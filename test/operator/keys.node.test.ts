import { eq } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isSecret, hashSecret } from "../../src/worker/api-keys/secret.ts";
import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { keysProgram } from "../../src/operator/keys/program.ts";
import { apiKeys } from "../../src/worker/db/keys-schema.ts";
import { runInProcess } from "./in-process.ts";
import { StoreFolder } from "./store-folder.ts";

const store = new StoreFolder();
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
let free: any;
let enterprise: any;

beforeAll(async () => {
  const own = ["--per-minute", "5", "--per-day", "1000000000"];
  [free, enterprise] = await Promise.all([
    store.keysJson("create", "--plan", "free", "--name", "Łódź 'n' \"co\""),
    store.keysJson("create", "--plan", "enterprise", "--name", "Chain", ...own),
  ]);
});
afterAll(() => store.remove());

/** Runs a command that is refused, here rather than in a process of its own. */
function refuse(...args: string[]) {
  return runInProcess(keysProgram(), [...args, "--persist-to", store.path]);
}

async function stored(id: string) {
  const database = await openLocalDatabase(store.path, "keys");
  try {
    return (await database.orm.select().from(apiKeys).where(eq(apiKeys.id, id)))[0];
  } finally {
    await database.close();
  }
}

describe("keys create", () => {
  it("prints the key with its record, and stores only the key's hash", async () => {
    expect(free).toEqual({
      id: expect.stringMatching(/^key_/),
      key: expect.toSatisfy(isSecret),
      plan: "free",
      name: "Łódź 'n' \"co\"",
      perMinute: 60,
      perDay: 1_000,
      createdAt: expect.stringMatching(TIME),
      expiresAt: null,
      revokedAt: null,
      formerKeyEndsAt: null,
      lastFour: free.key.slice(-4),
      state: "active",
      bannedUntil: null,
    });
    expect(enterprise).toMatchObject({ plan: "enterprise", perMinute: 5, perDay: 1_000_000_000 });
    const record = await stored(free.id);
    expect(record?.hash).toBe(hashSecret(free.key));
    expect(JSON.stringify(record)).not.toContain(free.key);
  });

  it("tells people that the key is not shown again, and never shows it again", async () => {
    const { stdout } = await store.keys(
      "create",
      "--plan",
      "pro",
      "--name",
      "P",
      "--expires",
      "2099-01-31",
    );
    const [key = ""] = stdout.split("\n");
    expect(key).toSatisfy(isSecret);
    expect(stdout).toContain("not shown again");
    expect(stdout).toContain("2099-01-31T00:00:00.000Z");
    const list = await store.keys("list");
    expect(list.stdout).toContain("active");
    expect(list.stdout).not.toContain(key);
  });

  it("refuses an expiry in the past", async () => {
    const expires = ["--expires", "2020-01-31T12:00:00+02:00"];
    const outcome = await refuse("create", "--plan", "pro", "--name", "Late", ...expires);
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toContain("2020-01-31T10:00:00.000Z is in the past");
  });
});

describe("keys list and show", () => {
  it("print the records without the keys", async () => {
    const { key: _, ...record } = free;
    expect(await store.keysJson("list")).toContainEqual(record);
    const unused = { lastUsedOn: null, reportedAt: null };
    expect(await store.keysJson("show", free.id)).toEqual({ ...record, ...unused });
  });
});

describe("keys update", () => {
  it("changes what is named and keeps the rest", async () => {
    const args = ["--name", "New", "--expires", "2099-12-31T23:59:59.5Z"];
    const updated = await store.keysJson("update", enterprise.id, "--per-minute", "7", ...args);
    const { key: _, ...record } = enterprise;
    const changes = { name: "New", perMinute: 7, expiresAt: "2099-12-31T23:59:59.500Z" };
    expect(updated).toEqual({ ...record, ...changes });
    expect(await store.keysJson("update", enterprise.id, "--expires", "never")).toEqual({
      ...record,
      ...changes,
      expiresAt: null,
    });
    expect(await stored(enterprise.id)).toMatchObject({ revision: 2, resets: 0 });
  });

  it("refuses an expiry in the past", async () => {
    const outcome = await refuse("update", enterprise.id, "--expires", "2020-01-31");
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toContain("2020-01-31T00:00:00.000Z is in the past");
  });

  it("takes a key to Enterprise and back to the limits of a plan", async () => {
    const { id } = await store.keysJson("create", "--plan", "business", "--name", "B");
    const refused = await refuse("update", id, "--plan", "enterprise", "--per-day", "9");
    expect(refused.status).toBe(1);
    expect(refused.stderr).toContain("needs --per-minute and --per-day");
    const own = ["--plan", "enterprise", "--per-minute", "3", "--per-day", "9"];
    expect(await store.keysJson("update", id, ...own)).toMatchObject({ perMinute: 3, perDay: 9 });
    expect(await store.keysJson("update", id, "--plan", "pro")).toMatchObject({
      plan: "pro",
      perMinute: 300,
      perDay: 10_000,
    });
    expect(await stored(id)).toMatchObject({ perMinute: null, perDay: null, revision: 2 });
  });

  it("refuses limits for a key of another plan", async () => {
    const { status, stderr } = await refuse("update", free.id, "--per-minute", "1000");
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining("free") });
  });
});

describe("keys revoke and reset", () => {
  it("keep the time of the first revocation", async () => {
    const { id } = await store.keysJson("create", "--plan", "free", "--name", "R");
    const first = await store.keysJson("revoke", id);
    expect(first.revokedAt).toMatch(TIME);
    expect(await store.keysJson("revoke", id)).toEqual(first);
    expect((await store.keys("show", id)).stdout).toContain("revoked");
  });

  it("count resets for the limiter to see, and change nothing else", async () => {
    const { key: _, ...record } = free;
    expect(await store.keysJson("reset", free.id)).toEqual(record);
    expect(await store.keysJson("reset", free.id)).toEqual(record);
    expect(await stored(free.id)).toMatchObject({ resets: 2, revision: 2 });
  });
});

describe("an unknown id", () => {
  it.each([["show"], ["revoke"], ["reset"], ["rotate"], ["update", "--name", "X"]])(
    "is refused by %s",
    async (command, ...options) => {
      const outcome = await refuse(command, "key_nobody", ...options, "--json");
      expect(outcome).toMatchObject({ status: 1, stdout: "" });
      expect(outcome.stderr).toMatch(/^error: no key has the id "key_nobody"/);
    },
  );
});
