import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { addKeys } from "../../../src/operator/keys/change-key.ts";
import { createVerificationKey } from "../../../src/operator/keys/key-changes.ts";
import { KeysCommand } from "./keys-command.ts";

const DAY_MS = 86_400_000;
const NOW = new Date();
const inDays = (days: number) => new Date(NOW.getTime() + days * DAY_MS);

const keys = new KeysCommand();

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  await keys.add({ name: "soon", plan: "pro", expiresAt: inDays(29) }, { createdAt: inDays(-8) });
  await keys.add({ name: "later", plan: "pro", expiresAt: inDays(31) }, { createdAt: inDays(-7) });
  await keys.add({ name: "CAFÉ Łódź & Co" }, { createdAt: inDays(-9) });
  await keys.add({ name: "Expired", plan: "pro", expiresAt: NOW }, { createdAt: inDays(-6) });
  const revoked = { name: "Revoked", plan: "pro", expiresAt: inDays(29) } as const;
  await keys.add(revoked, { createdAt: inDays(-5), revokedAt: NOW });
  await keys.add({ name: "Both", expiresAt: inDays(-2) }, { createdAt: NOW, revokedAt: NOW });
});
afterAll(() => void vi.useRealTimers());

const names = (list: readonly { name: string }[]) => list.map(({ name }) => name);

describe("keys list", () => {
  it.each([
    [[], ["CAFÉ Łódź & Co", "soon", "later", "Expired", "Revoked", "Both"]],
    [
      ["--state", "active"],
      ["CAFÉ Łódź & Co", "soon", "later"],
    ],
    [["--state", "expired"], ["Expired"]],
    [
      ["--state", "revoked"],
      ["Revoked", "Both"],
    ],
    [
      ["--plan", "free"],
      ["CAFÉ Łódź & Co", "Both"],
    ],
    [["--plan", "enterprise"], []],
    [["--name", "café łÓD"], ["CAFÉ Łódź & Co"]],
    [["--name", "cafe\u0301"], ["CAFÉ Łódź & Co"]],
    [["--name", "%"], []],
    [["--plan", "pro", "--state", "active", "--name", "O"], ["soon"]],
  ])("shows the keys that match %j", async (filters, expected) => {
    expect(names(await keys.json("list", ...filters))).toEqual(expected);
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
