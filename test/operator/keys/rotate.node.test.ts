import { eq } from "drizzle-orm";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { toKeyJson } from "../../../src/operator/key-store/key-json.ts";
import { hashSecret, isSecret } from "../../../src/worker/api-keys/secret.ts";
import { findApiKey } from "../../../src/operator/key-store/key-details.ts";
import { formerKeyHashes } from "../../../src/worker/db/keys-schema.ts";
import { KeysCommand } from "./keys-command.ts";

const HOUR_MS = 3_600_000;
const NOW = new Date("2030-01-01T12:00:00.000Z");
const inHours = (hours: number) => new Date(NOW.getTime() + hours * HOUR_MS);

let keys: KeysCommand;

beforeAll(async () => {
  keys = await KeysCommand.open();
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => keys.close());

function stopClock(): void {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
}

/** The hash of a key, and those of its former keys with their ends. */
async function hashes(id: string) {
  const { orm } = keys.database;
  const record = await findApiKey(orm, id);
  const former = await orm.select().from(formerKeyHashes).where(eq(formerKeyHashes.keyId, id));
  return { own: record?.hash, former: former.map(({ hash, endsAt }) => ({ hash, endsAt })) };
}

describe("keys rotate", () => {
  it("prints the new key with the record, and keeps the former hash for the grace", async () => {
    const { key: former, record } = await keys.add();
    stopClock();
    const { key, ...rotated } = await keys.json("rotate", record.id, "--grace", "90m");
    expect(key).toSatisfy(isSecret);
    const formerKeyEndsAt = inHours(1.5).toISOString();
    const lastFour = key.slice(-4);
    expect(rotated).toEqual({ ...toKeyJson(record, NOW), lastFour, formerKeyEndsAt });
    expect(await hashes(record.id)).toEqual({
      own: hashSecret(key),
      former: [{ hash: hashSecret(former), endsAt: inHours(1.5) }],
    });
    expect(await keys.json("show", record.id)).toMatchObject(rotated);
  });

  it("gives the former key a day where no grace is named", async () => {
    const { record } = await keys.add();
    stopClock();
    const { formerKeyEndsAt } = await keys.json("rotate", record.id);
    expect(formerKeyEndsAt).toBe(inHours(24).toISOString());
  });

  it("tells people the new key once, and what is still valid until when", async () => {
    const { record } = await keys.add({ name: "People" });
    stopClock();
    await keys.text("rotate", record.id, "--grace", "1h");
    const rotated = await keys.text("rotate", record.id, "--grace", "7d");
    const [key = ""] = rotated.split("\n");
    expect(key).toSatisfy(isSecret);
    expect(rotated).toContain("not shown again");
    const shown = await keys.text("show", record.id);
    expect(shown).not.toContain(key);
    for (const output of [rotated, shown]) {
      expect(output).toContain(`valid beside it until ${inHours(1).toISOString()}.`);
      expect(output).toContain(`valid beside it until ${inHours(7 * 24).toISOString()}.`);
    }
    const list = await keys.text("list", "--name", "People");
    expect(list).toContain("former key until");
    expect(list).toContain(inHours(7 * 24).toISOString());
  });

  it("says nothing of former keys that have ended", async () => {
    const { record } = await keys.add();
    await keys.text("rotate", record.id, "--grace", "7d");
    const rotated = await keys.text("rotate", record.id, "--grace", "0");
    expect(rotated).toContain("ends within 30 seconds");
    for (const output of [rotated, await keys.text("show", record.id)]) {
      expect(output).not.toMatch(/former key (is|until)/);
    }
  });

  it.each([
    ["expired", { expiresAt: inHours(0) }],
    ["revoked", { revokedAt: inHours(0) }],
  ])("refuses a key that is %s, and changes nothing", async (state, fields) => {
    const { key, record } = await keys.add({}, fields);
    stopClock();
    const { status, stdout, stderr } = await keys.run("rotate", record.id);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain(`the key is ${state}`);
    expect(await hashes(record.id)).toEqual({ own: hashSecret(key), former: [] });
  });
});
