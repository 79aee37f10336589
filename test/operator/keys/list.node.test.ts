import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type KeyFilter, listApiKeys } from "../../../src/operator/key-store/key-details.ts";
import { addKeys } from "../../../src/operator/key-store/change-key.ts";
import { createVerificationKey } from "../../../src/operator/key-store/administration.ts";
import { KeysCommand } from "./keys-command.ts";

const DAY_MS = 86_400_000;
const NOW = new Date();
const inDays = (days: number) => new Date(NOW.getTime() + days * DAY_MS);

const keys = new KeysCommand();

beforeAll(async () => {
  await keys.add({ name: "soon", plan: "pro", expiresAt: inDays(29) }, { createdAt: inDays(-8) });
  await keys.add({ name: "later", plan: "pro", expiresAt: inDays(31) }, { createdAt: inDays(-7) });
  await keys.add({ name: "CAFÉ Łódź & Co" }, { createdAt: inDays(-9) });
  await keys.add({ name: "Expired", plan: "pro", expiresAt: NOW }, { createdAt: inDays(-6) });
  const revoked = { name: "Revoked", plan: "pro", expiresAt: inDays(29) } as const;
  await keys.add(revoked, { createdAt: inDays(-5), revokedAt: NOW });
  await keys.add({ name: "Both", expiresAt: inDays(-2) }, { createdAt: NOW, revokedAt: NOW });
});
afterAll(() => keys.close());

const names = (list: readonly { name: string }[]) => list.map(({ name }) => name);

describe("listApiKeys", () => {
  it.each<[KeyFilter, string[]]>([
    [{}, ["CAFÉ Łódź & Co", "soon", "later", "Expired", "Revoked", "Both"]],
    [{ state: "active" }, ["CAFÉ Łódź & Co", "soon", "later"]],
    [{ state: "expired" }, ["Expired"]],
    [{ state: "revoked" }, ["Revoked", "Both"]],
    [{ plan: "free" }, ["CAFÉ Łódź & Co", "Both"]],
    [{ plan: "enterprise" }, []],
    [{ name: "café łÓD" }, ["CAFÉ Łódź & Co"]],
    [{ name: "cafe\u0301" }, ["CAFÉ Łódź & Co"]],
    [{ name: "%" }, []],
    [{ expiresUntil: inDays(29) }, ["soon"]],
    [{ expiresUntil: inDays(31) }, ["soon", "later"]],
    [{ expiresUntil: inDays(31), state: "expired" }, []],
    [{ plan: "pro", state: "active", name: "O" }, ["soon"]],
  ])("%j", async (filter, expected) => {
    expect(names(await listApiKeys((await keys.database()).orm, filter, NOW))).toEqual(expected);
  });
});

describe("keys list", () => {
  it("applies every filter", async () => {
    expect(names(await keys.json("list", "--expires-within", "30d"))).toEqual(["soon"]);
    const filters = ["--plan", "pro", "--state", "active", "--name", "O"];
    expect(names(await keys.json("list", ...filters))).toEqual(["soon"]);
  });

  it("leaves out the keys of npm run verify, unless a name is given", async () => {
    const { record } = createVerificationKey(NOW);
    await addKeys(await keys.database(), [record]);
    await keys.add({ name: record.name });
    const ids = async (...args: string[]) =>
      (await keys.json("list", ...args)).map(({ id }: { id: string }) => id);
    expect(await ids()).not.toContain(record.id);
    expect(names(await keys.json("list"))).toContain(record.name);
    expect(await ids("--name", "verification")).toContain(record.id);
  });

  it("says that no key matches", async () => {
    expect(await keys.text("list", "--name", "nobody")).toBe("No matching keys.\n");
  });
});
