import { afterEach, describe, expect, it, vi } from "vitest";
import * as storedKeys from "../../../src/operator/keys/stored-keys.ts";
import { formatTime } from "../../../src/operator/terminal-text.ts";
import { hashSecret, isSecret } from "../../../src/rules/keys/secret.ts";
import { failure } from "../in-process.ts";
import { KeysCommand } from "./keys-command.ts";

const NOW = new Date("2030-01-01T12:00:00.000Z");
const inHours = (hours: number) => new Date(NOW.getTime() + hours * 3_600_000);
const stopClock = () => void vi.useFakeTimers({ toFake: ["Date"], now: NOW });

const keys = new KeysCommand();
afterEach(() => void vi.useRealTimers());

/** Returns the hash of a key's secret, then the hash and the end of each former secret. */
async function hashes(id: string) {
  const [key] = await keys.rows(`SELECT hash FROM api_keys WHERE id = '${id}'`);
  const former = await keys.rows(
    `SELECT hash, ends_at FROM former_key_hashes WHERE key_id = '${id}'`,
  );
  return [key?.hash, ...former.map(({ hash, ends_at: ends }) => [hash, new Date(ends)])];
}

describe("keys rotate", () => {
  it("changes only the secret, and keeps the former one for the grace, 24 hours by default", async () => {
    const { key: former, record: key } = await keys.add();
    const { record: other } = await keys.add();
    stopClock();
    const { formerKeyEndsAt } = await keys.json("rotate", other.id);
    expect(formerKeyEndsAt).toBe(inHours(24).toISOString());
    const before = await keys.json("show", key.id);
    const { key: secret, ...rotated } = await keys.json("rotate", key.id, "--grace", "90m");
    expect(secret).toSatisfy(isSecret);
    const ends = { lastFour: secret.slice(-4), formerKeyEndsAt: inHours(1.5).toISOString() };
    expect(await keys.json("show", key.id)).toEqual({ ...before, ...ends });
    expect({ ...before, ...ends }).toMatchObject(rotated);
    expect(await hashes(key.id)).toEqual([hashSecret(secret), [hashSecret(former), inHours(1.5)]]);
  });

  it("prints the new secret once, and when the former keys expire", async () => {
    const { record: key } = await keys.add();
    stopClock();
    const graces = ["1h", "2h", "90d"];
    for (const grace of graces.slice(0, -1)) await keys.text("rotate", key.id, "--grace", grace);
    const rotated = await keys.run("rotate", key.id, "--grace", "90d");
    expect(rotated.stdout.trimEnd()).toSatisfy(isSecret);
    expect(rotated.stderr).toContain("not shown again");
    const shown = await keys.text("show", key.id);
    expect(shown).not.toContain(rotated.stdout.trimEnd());
    const ends = [1, 2, 90 * 24].map((hours) => formatTime(inHours(hours))).join(", ");
    for (const output of [rotated.stderr, shown]) {
      expect(output).toContain(`former keys until  ${ends}\n`);
    }
    expect(await keys.text("revoke", key.id)).not.toContain("former keys");
  });

  it("with --grace 0 ends all former keys at once", async () => {
    const { record: key } = await keys.add();
    await keys.text("rotate", key.id, "--grace", "7d");
    const rotated = await keys.text("rotate", key.id, "--grace", "0");
    expect(rotated).toContain("ends within 30 seconds");
    expect(rotated).not.toContain("former keys");
    for (const [, end] of (await hashes(key.id)).slice(1)) expect(end <= new Date()).toBe(true);
  });

  it("prints the secret that it stored, if others change the key meanwhile, twice", async () => {
    const { key: former, record: key } = await keys.add();
    const { findApiKey } = storedKeys;
    const overtaken: typeof findApiKey = async (...args) => {
      const read = await findApiKey(...args);
      await keys.rows(`UPDATE api_keys SET revision = revision + 1 WHERE id = '${key.id}'`);
      return read;
    };
    const reading = vi.spyOn(storedKeys, "findApiKey");
    // A failed attempt reads the key twice, so changes after three reads make two attempts fail.
    for (let reads = 0; reads < 3; reads += 1) reading.mockImplementationOnce(overtaken);
    const { key: secret } = await keys.json("rotate", key.id);
    expect(await hashes(key.id)).toEqual([
      hashSecret(secret),
      [hashSecret(former), expect.any(Date)],
    ]);
  });

  it.each([
    ["expired", { expiresAt: NOW }],
    ["revoked", { revokedAt: NOW }],
  ])("refuses a key that is %s, and changes nothing", async (state, fields) => {
    const { key: secret, record: key } = await keys.add({}, fields);
    stopClock();
    expect(await keys.run("rotate", key.id)).toEqual(failure(`the key is ${state}`));
    expect(await hashes(key.id)).toEqual([hashSecret(secret)]);
  });
});
