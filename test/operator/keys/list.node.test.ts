import { readFile } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
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

it("A key whose plan only a later version knows is shown as stored and hides no other key", async () => {
  const { record } = await keys.add({ name: "Of a later version" });
  {
    using sqlite = new DatabaseSync(databaseFile(keys.path, "keys"), { timeout: 10_000 });
    sqlite.exec("PRAGMA ignore_check_constraints = ON");
    sqlite.prepare("UPDATE api_keys SET plan = 'team', per_day = 7 WHERE id = ?").run(record.id);
  }
  const stored = { id: record.id, plan: "team" };
  const limits = { perMinute: null, perDay: 7 };
  for (const [command, shown] of [
    ["list", { ...stored, ...limits }],
    ["usage", stored],
  ] as const) {
    const listed = await keys.json(command);
    expect(listed).toContainEqual(expect.objectContaining(shown));
    expect(listed.map(({ name }: any) => name)).toContain("later");
    expect(await keys.text(command)).toContain(record.id);
  }
  const page = `${keys.path}/usage.html`;
  await keys.text("usage", "--html", page);
  expect(await readFile(page, "utf8")).toContain("team: – requests a minute, 7 a day");
  expect(await keys.json("show", record.id)).toMatchObject({ ...stored, ...limits });

  // An update would lose limits that this version does not know.
  const { stderr } = await keys.run("update", record.id, "--name", "New");
  expect(stderr).toContain("does not know the plan");
});
