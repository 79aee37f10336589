import { afterEach, describe, expect, it, vi } from "vitest";
import { hashSecret, isSecret } from "../../../src/rules/keys/secret.ts";
import * as keyDetails from "../../../src/operator/keys/stored-keys.ts";
import { formatTime } from "../../../src/operator/terminal-text.ts";
import { KeysCommand } from "./keys-command.ts";

const HOUR_MS = 3_600_000;
const NOW = new Date("2030-01-01T12:00:00.000Z");
const inHours = (hours: number) => new Date(NOW.getTime() + hours * HOUR_MS);

const { findApiKey, toKeyJson } = keyDetails;
const keys = new KeysCommand();

afterEach(() => void vi.useRealTimers());

function stopClock(): void {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
}

async function hashes(id: string) {
  const database = await keys.database();
  const key = await findApiKey(database.orm, id);
  const former = await keys.rows(
    `SELECT hash, ends_at AS endsAt FROM former_key_hashes WHERE key_id = '${id}'`,
  );
  return {
    own: key?.hash,
    former: former.map(({ hash, endsAt }) => ({ hash, endsAt: new Date(endsAt) })),
  };
}

describe("keys rotate", () => {
  it("prints the key with its new secret, and keeps the former hash for the grace", async () => {
    const { key: former, record: key } = await keys.add();
    const { record: other } = await keys.add();
    stopClock();
    const byDefault = { formerKeyEndsAt: inHours(24).toISOString() };
    expect(await keys.json("rotate", other.id)).toMatchObject(byDefault);
    const { key: secret, ...rotated } = await keys.json("rotate", key.id, "--grace", "90m");
    expect(secret).toSatisfy(isSecret);
    const formerKeyEndsAt = inHours(1.5).toISOString();
    const lastFour = secret.slice(-4);
    expect(rotated).toEqual({ ...toKeyJson(key, NOW), lastFour, formerKeyEndsAt });
    expect(await hashes(key.id)).toEqual({
      own: hashSecret(secret),
      former: [{ hash: hashSecret(former), endsAt: inHours(1.5) }],
    });
    expect(await keys.json("show", key.id)).toMatchObject(rotated);
    expect(await keys.json("show", other.id)).toMatchObject(byDefault);
  });

  it("prints the new secret once, and when the former keys expire", async () => {
    const { record: key } = await keys.add({ name: "People" });
    stopClock();
    const graces = [1, 2, 3, 4, 90 * 24];
    for (const hours of graces.slice(0, -1)) {
      await keys.text("rotate", key.id, "--grace", `${hours}h`);
    }
    const rotated = await keys.text("rotate", key.id, "--grace", "90d");
    const [secret = ""] = rotated.split("\n");
    expect(secret).toSatisfy(isSecret);
    expect(rotated).toContain("not shown again");
    const shown = await keys.text("show", key.id);
    expect(shown).not.toContain(secret);
    const ends = graces.map((hours) => formatTime(inHours(hours))).join(", ");
    for (const output of [rotated, shown]) expect(output).toContain(`former keys until  ${ends}\n`);
  });

  it("prints the secret that it stored, if others change the key meanwhile, twice", async () => {
    const { key: former, record: key } = await keys.add();
    const overtaken: typeof findApiKey = async (...args) => {
      const read = await findApiKey(...args);
      await keys.rows(`UPDATE api_keys SET revision = revision + 1 WHERE id = '${key.id}'`);
      return read;
    };
    const reading = vi.spyOn(keyDetails, "findApiKey");
    // A failed attempt reads the key twice, so changes after three reads make two attempts fail.
    for (let reads = 0; reads < 3; reads += 1) reading.mockImplementationOnce(overtaken);
    const { key: secret } = await keys.json("rotate", key.id);
    expect(await hashes(key.id)).toMatchObject({
      own: hashSecret(secret),
      former: [{ hash: hashSecret(former) }],
    });
  });

  it("does not mention former keys that have expired or are revoked", async () => {
    const { record: key } = await keys.add();
    await keys.text("rotate", key.id, "--grace", "7d");
    const rotated = await keys.text("rotate", key.id, "--grace", "0");
    expect(rotated).toContain("ends within 30 seconds");
    for (const output of [rotated, await keys.text("show", key.id)]) {
      expect(output).not.toContain("former keys");
    }
    const { record: revoked } = await keys.add();
    await keys.text("rotate", revoked.id);
    expect(await keys.text("revoke", revoked.id)).not.toContain("former keys");
  });

  it.each([
    ["expired", { expiresAt: inHours(0) }],
    ["revoked", { revokedAt: inHours(0) }],
  ])("refuses a key that is %s, and changes nothing", async (state, fields) => {
    const { key: secret, record: key } = await keys.add({}, fields);
    stopClock();
    const { status, stdout, stderr } = await keys.run("rotate", key.id);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain(`the key is ${state}`);
    expect(await hashes(key.id)).toEqual({ own: hashSecret(secret), former: [] });
  });
});
