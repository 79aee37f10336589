import { readFileSync } from "node:fs";
import { eq } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isSecret, hashSecret } from "../../src/worker/api-keys/secret.ts";
import { apiKeys } from "../../src/schema/keys.ts";
import { OpenStore } from "./store-folder.ts";

const store = new OpenStore();
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
afterAll(() => store.close());

async function stored(id: string) {
  const { orm } = await store.database("keys");
  return (await orm.select().from(apiKeys).where(eq(apiKeys.id, id)))[0];
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
  });

  it("prints nothing but the secret on stdout, and says that it is shown once", async () => {
    const expires = ["--expires", "2099-01-31"];
    const { stdout, stderr } = await store.keys(
      "create",
      "--plan",
      "pro",
      "--name",
      "P",
      ...expires,
    );
    const secret = stdout.trimEnd();
    expect(secret).toSatisfy(isSecret);
    expect(stderr).toContain("not shown again");
    expect(stderr).toMatch(/^expires +2099-01-31 00:00 UTC$/m);
    const list = await store.keys("list");
    expect(list.stdout).toContain("active");
    expect(list.stdout).not.toContain(secret);
  });

  it("refuses an expiry in the past", async () => {
    const expires = ["--expires", "2020-01-31T12:00:00+02:00"];
    const outcome = await store.keys("create", "--plan", "pro", "--name", "Late", ...expires);
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toContain("2020-01-31T10:00:00.000Z is in the past");
  });
});

describe("keys list and show", () => {
  it("print keys without their secrets", async () => {
    const { key: _, ...details } = free;
    expect(await store.keysJson("list")).toContainEqual(details);
    const unused = { lastUsedOn: null, reportedAt: null };
    expect(await store.keysJson("show", free.id)).toEqual({ ...details, ...unused });
  });
});

it("keys list prints what docs/operating.md shows", async () => {
  const { id, lastFour } = await store.keysJson("create", "--plan", "pro", "--name", "Pet shop");
  const { stdout } = await store.keys("list", "--name", "Pet shop");
  const printed = stdout.replace(id, "key_isxy5b7tgrodf5lw").replace(lastFour, "dh3t");
  expect(readFileSync("docs/operating.md", "utf8")).toContain(`\n\n\`\`\`\n${printed}\`\`\`\n`);
});

describe("keys update", () => {
  it("changes the settings that the options name, and keeps all other settings", async () => {
    const args = ["--name", "New", "--expires", "2099-12-31T23:59:59.5Z"];
    const updated = await store.keysJson("update", enterprise.id, "--per-minute", "7", ...args);
    const { key: _, ...details } = enterprise;
    const changes = { name: "New", perMinute: 7, expiresAt: "2099-12-31T23:59:59.500Z" };
    expect(updated).toEqual({ ...details, ...changes });
    expect(await store.keysJson("update", enterprise.id, "--expires", "never")).toEqual({
      ...details,
      ...changes,
      expiresAt: null,
    });
    expect(await stored(enterprise.id)).toMatchObject({ revision: 2, resets: 0 });
  });

  it("refuses an expiry in the past", async () => {
    const outcome = await store.keys("update", enterprise.id, "--expires", "2020-01-31");
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toContain("2020-01-31T00:00:00.000Z is in the past");
  });

  it("changes a key to Enterprise and back to a plan with fixed limits", async () => {
    const { id } = await store.keysJson("create", "--plan", "business", "--name", "B");
    const refused = await store.keys("update", id, "--plan", "enterprise", "--per-day", "9");
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

  it("refuses custom limits for a plan with fixed limits", async () => {
    const { status, stderr } = await store.keys("update", free.id, "--per-minute", "1000");
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

  it("count resets for the limiter and change nothing else", async () => {
    const { key: _, ...details } = free;
    expect(await store.keysJson("reset", free.id)).toEqual(details);
    expect(await store.keysJson("reset", free.id)).toEqual(details);
    expect(await stored(free.id)).toMatchObject({ resets: 2, revision: 2 });
  });
});

describe("an unknown id", () => {
  it.each([["show"], ["usage"], ["revoke"], ["reset"], ["rotate"], ["update", "--name", "X"]])(
    "is refused by %s",
    async (command, ...options) => {
      const outcome = await store.keys(command, "key_nobody", ...options, "--json");
      expect(outcome).toMatchObject({ status: 1, stdout: "" });
      expect(outcome.stderr).toBe(
        `error: no key has the id "key_nobody"; \`npm run keys -- list --persist-to ${store.path}\` shows the ids\n`,
      );
    },
  );
});
