import { asc } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { updateApiKey } from "../../../src/operator/key-store/administration.ts";
import { findApiKey } from "../../../src/operator/key-store/key-details.ts";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import { changeKey } from "../../../src/operator/key-store/change-key.ts";
import { keyChanges } from "../../../src/schema/keys.ts";
import { KeysCommand } from "./keys-command.ts";

let keys: KeysCommand;
let database: StoreDatabase;

beforeAll(async () => {
  keys = await KeysCommand.open();
  database = keys.database;
});
afterAll(() => keys.close());

async function newKey(): Promise<string> {
  return (await keys.add({ name: "0" })).record.id;
}

async function trail(id: string) {
  const rows = await database.orm.select().from(keyChanges).orderBy(asc(keyChanges.id));
  return rows.filter(({ keyId }) => keyId === id).map(({ details }) => details);
}

/**
 * Returns the keys database with delayed transactions: the first `operators` transactions wait for
 * each other, so that all operators have read the key before the first change.
 */
function decidingTogether(operators: number): StoreDatabase {
  let waiting = 0;
  let proceed: () => void;
  const allDecided = new Promise<void>((resolve) => (proceed = resolve));
  return {
    ...database,
    transaction: async (statements) => {
      waiting += 1;
      if (waiting === operators) proceed();
      await allDecided;
      await database.transaction(statements);
    },
  };
}

describe("operators who change one key at the same time", () => {
  it("all succeed, one after the other", async () => {
    const id = await newKey();
    const together = decidingTogether(4);
    await Promise.all(
      ["a", "b", "c", "d"].map((letter) =>
        changeKey(together, id, "update", (current) =>
          updateApiKey(current, { name: current.name + letter }),
        ),
      ),
    );
    const steps = (await trail(id)).map(({ name }) => name);
    const { name, revision } = (await findApiKey(database.orm, id))!;
    expect({ letters: [...name].toSorted().join(""), revision }).toEqual({
      letters: "0abcd",
      revision: 4,
    });
    expect(steps.map((step) => step?.to)).toEqual([1, 2, 3, 4, 5].map((n) => name.slice(0, n)));
    expect(steps.map((step) => step?.from)).toEqual([
      null,
      ...[1, 2, 3, 4].map((n) => name.slice(0, n)),
    ]);
  });

  it("record one entry in the audit trail if both make the same change", async () => {
    const id = await newKey();
    const together = decidingTogether(2);
    const toPro = () => changeKey(together, id, "update", (key) => ({ ...key, plan: "pro" }));
    const changed = await Promise.all([toPro(), toPro()]);
    expect(changed.map(({ revision }) => revision)).toEqual([1, 1]);
    expect(await trail(id)).toHaveLength(2);
  });
});

describe("the audit trail", () => {
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
  ])("cannot be %s with: %s", async (refusal, sql) => {
    const id = await newKey();
    const before = await trail(id);
    await expect(database.transaction([{ sql, params: [] }])).rejects.toThrow(`never ${refusal}`);
    expect(await trail(id)).toEqual(before);
  });
});
