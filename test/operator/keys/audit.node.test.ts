import { hostname } from "node:os";
import { sql } from "drizzle-orm";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import { changeKey } from "../../../src/operator/keys/change-key.ts";
import { findApiKey, type KeyDetails } from "../../../src/operator/keys/stored-keys.ts";
import { KeysCommand, tableCells } from "./keys-command.ts";

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const keys = new KeysCommand();
let database: StoreDatabase;

beforeAll(async () => {
  database = await keys.database();
});
beforeEach(() => void vi.stubEnv("STORE_ORDERS_ACTOR", "Ada"));
afterEach(() => void vi.unstubAllEnvs());

const newKey = async () => (await keys.add({ name: "0" })).record.id;

const trail = (id: string) =>
  keys.rows(`SELECT * FROM key_changes WHERE key_id = '${id}' ORDER BY id`);

describe("keys audit", () => {
  it("records the old and the new value of every change, and nothing if nothing changed", async () => {
    const create = ["create", "--plan", "pro", "--name", "Zoo", "--expires", "2099-01-31"];
    const { id, key: secret } = await keys.json(...create);
    const own = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "10000"];
    await keys.json("update", id, ...own, "--name", "Chain", "--expires", "never");
    await keys.json("update", id, "--name", "Chain", "--expires", "never");
    const { key: newerSecret, formerKeyEndsAt } = await keys.json("rotate", id);
    await keys.json("reset", id);
    const { revokedAt } = await keys.json("revoke", id);
    await keys.json("revoke", id);
    await keys.run("rotate", id);
    const changes = await keys.json("audit", id);
    const common = { at: expect.stringMatching(TIME), actor: "Ada", keyId: id };
    const details = { revokedAt: { from: null, to: revokedAt } };
    expect(changes[0]).toEqual({ ...common, action: "revoke", details });
    expect(
      tableCells(await keys.text("audit", id))
        .slice(1)
        .map((cells) => cells.slice(2)),
    ).toEqual([
      ["revoke", id, `revokedAt: ${revokedAt}`],
      ["reset", id],
      ["rotate", id, `formerKeyEndsAt: ${formerKeyEndsAt}`],
      [
        "update",
        id,
        "name: Zoo → Chain, plan: pro → enterprise, perMinute: 300 → 5, expiresAt: 2099-01-31T00:00:00.000Z → none",
      ],
      [
        "create",
        id,
        "name: Zoo, plan: pro, perMinute: 300, perDay: 10000, expiresAt: 2099-01-31T00:00:00.000Z",
      ],
    ]);
    const stored = JSON.stringify(await trail(id));
    expect(stored).not.toMatch(/[0-9a-f]{64}/);
    for (const shown of [secret, newerSecret]) expect(stored).not.toContain(shown.slice(5));
  });

  it("shows the newest changes first, filtered by key and number", async () => {
    const { record: one } = await keys.add({ name: "One" });
    await keys.add({ name: "Two" });
    const names = async (...args: string[]) =>
      (await keys.json("audit", ...args)).map(({ details }: any) => details.name?.to);
    expect(await names("--limit", "2")).toEqual(["Two", "One"]);
    expect(await names(one.id)).toEqual(["One"]);
    expect(await keys.text("audit", "--limit", "1")).toContain("--limit");
  });

  it("names the account and the machine by default, and refuses an actor that is no name", async () => {
    vi.stubEnv("STORE_ORDERS_ACTOR", "");
    vi.stubEnv("USER", "ada");
    const id = await newKey();
    const actor = `ada@${hostname()}`;
    expect(await trail(id)).toEqual([expect.objectContaining({ actor })]);
    vi.stubEnv("STORE_ORDERS_ACTOR", "a\nb");
    const { status, stderr } = await keys.run("revoke", id);
    expect(status).toBe(2);
    expect(stderr).toContain("STORE_ORDERS_ACTOR");
    expect(await trail(id)).toHaveLength(1);
  });

  it("has no entry for a change that failed", async () => {
    const id = await newKey();
    const lacksLimits = changeKey(database, id, "update", (key) => ({ ...key, perDay: 5 }));
    await expect(lacksLimits).rejects.toThrow("enterprise_has_its_own_limits");
    expect(await trail(id)).toHaveLength(1);
  });

  it.each([
    ["rewritten", "UPDATE key_changes SET actor = 'nobody'"],
    ["deleted", "DELETE FROM key_changes"],
    [
      "rewritten",
      "INSERT OR REPLACE INTO key_changes SELECT id, at, 'nobody', action, key_id, details FROM key_changes",
    ],
  ])("cannot be %s with: %s", async (refusal, text) => {
    await expect(database.transaction([sql.raw(text)])).rejects.toThrow(`never ${refusal}`);
  });
});

it("operators who change one key at the same time all succeed, one after the other", async () => {
  const id = await newKey();
  const letters = ["a", "b", "c", "d"];
  let waiting = 0;
  const { promise: allDecided, resolve: proceed } = Promise.withResolvers<void>();
  // All read the key before the first change is written.
  const together: StoreDatabase = {
    ...database,
    transaction: async (statements) => {
      waiting += 1;
      if (waiting === letters.length) proceed();
      await allDecided;
      await database.transaction(statements);
    },
  };
  const append = (letter: string) => (key: KeyDetails) => ({ ...key, name: key.name + letter });
  await Promise.all(letters.map((letter) => changeKey(together, id, "update", append(letter))));
  const { name = "", revision } = (await findApiKey(database.orm, id)) ?? {};
  expect([...name].toSorted().join("")).toBe("0abcd");
  expect(revision).toBe(4);
  const steps = (await trail(id)).slice(1).map(({ details }) => JSON.parse(details).name);
  expect(steps).toEqual(
    [1, 2, 3, 4].map((n) => ({ from: name.slice(0, n), to: name.slice(0, n + 1) })),
  );
});
