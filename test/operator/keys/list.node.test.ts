import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { addKeys } from "../../../src/operator/keys/change-key.ts";
import { createVerificationKey } from "../../../src/operator/keys/key-changes.ts";
import { KeysCommand } from "./keys-command.ts";

const NOW = new Date();
const inDays = (days: number) => new Date(NOW.getTime() + days * 86_400_000);
const keys = new KeysCommand();

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  await keys.add({ name: "later", plan: "pro", expiresAt: inDays(31) }, { createdAt: inDays(-7) });
  await keys.add({ name: "CAFÉ Łódź & Co" }, { createdAt: inDays(-9) });
  await keys.add({ name: "Expired", plan: "pro", expiresAt: NOW }, { createdAt: inDays(-6) });
  await keys.add({ name: "Both", expiresAt: inDays(-2) }, { createdAt: NOW, revokedAt: NOW });
  // A key with the name of the keys of `npm run verify`, but with another lifetime.
  await keys.add({ name: "Verification" }, { createdAt: inDays(1) });
  const { record } = createVerificationKey(NOW);
  await addKeys(await keys.database(), [
    { ...record, createdAt: inDays(2), expiresAt: new Date(inDays(2).getTime() + 600_000) },
  ]);
});
afterAll(() => void vi.useRealTimers());

it.each([
  ["", ["CAFÉ Łódź & Co", "later", "Expired", "Both", "Verification"]],
  ["--state active", ["CAFÉ Łódź & Co", "later", "Verification"]],
  ["--state expired", ["Expired"]],
  ["--state revoked", ["Both"]],
  ["--plan free", ["CAFÉ Łódź & Co", "Both", "Verification"]],
  ["--plan enterprise", []],
  ["--name café", ["CAFÉ Łódź & Co"]],
  ["--name cafe\u0301", ["CAFÉ Łódź & Co"]],
  ["--name %", []],
  ["--name verification", ["Verification", "Verification"]],
  ["--plan pro --state active --name T", ["later"]],
])(
  "keys list %s shows the keys that match all filters, the oldest first",
  async (filters, names) => {
    const listed = await keys.json("list", ...filters.split(" ").filter(Boolean));
    expect(listed.map(({ name }: any) => name)).toEqual(names);
    const { stdout, stderr } = await keys.run("list", ...filters.split(" ").filter(Boolean));
    const rows = stdout.split("\n").slice(1, -1);
    expect(rows.map((row) => names.find((name) => row.endsWith(`  ${name}`)))).toEqual(names);
    expect(stderr).toBe(names.length === 0 ? "No matching keys.\n" : "");
  },
);
