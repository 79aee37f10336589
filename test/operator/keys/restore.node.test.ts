import { rmSync, writeFileSync } from "node:fs";
import fs from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { atEveryCall, shortenPauses } from "../deploy/faults.ts";
import { failure, runInProcess } from "../in-process.ts";

vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const saved = join(wrangler.PROJECT_ROOT, ".wrangler", "restore-staging-keys.json");
const cloudflare = useFakeCloudflare("staging");
const database = () => cloudflare.d1.find("store-orders-staging-keys");
const rows = (sql: string): any[] => database().sqlite.prepare(sql).all();

beforeAll(shortenPauses);
const forget = () => rmSync(saved, { force: true });
beforeEach(forget);
afterEach(forget);

const run = (...args: string[]) => runInProcess(keysProgram(), [...args, "--env", "staging"]);
async function json(...args: string[]): Promise<any> {
  const { status, stdout, stderr } = await run(...args, "--json");
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout);
}
const create = async (name: string) => (await json("create", "--plan", "pro", "--name", name)).id;

const formerOf = (id: string) =>
  rows(`SELECT hash, ends_at FROM former_key_hashes WHERE key_id = '${id}' ORDER BY hash`);

/** Returns the bookmark of a state, after which keys were revoked, rotated, reset, changed and created. */
async function changeKeys() {
  const revoked = await create("Revoked");
  const rotated = await create("Rotated");
  const changed = await create("Changed");
  await json("rotate", rotated, "--grace", "24h");
  const bookmark = database().bookmark();
  await json("revoke", revoked, "--yes");
  await json("rotate", rotated, "--grace", "0", "--yes");
  await json("reset", changed, "--yes");
  await json("update", changed, "--plan", "free");
  const later = await create("Later");
  const keys = rows("SELECT id, hash, last_four, resets, revision, revoked_at FROM api_keys");
  return { bookmark, revoked, rotated, changed, later, keys, former: formerOf(rotated) };
}

type Before = Awaited<ReturnType<typeof changeKeys>>;

/** Expects the earlier settings, and that no secret that had ended is valid again. */
function expectRestored(expected: Before, label = "") {
  const { bookmark, revoked, rotated, changed, later, keys, former } = expected;
  const before = (id: string) => keys.find((key) => key.id === id);
  const after = (id: string) => rows(`SELECT * FROM api_keys WHERE id = '${id}'`)[0];
  expect(after(revoked).revoked_at, label).toBe(before(revoked).revoked_at);
  const { hash, last_four } = before(rotated);
  expect(after(rotated), label).toMatchObject({ hash, last_four });
  expect(formerOf(rotated), label).toEqual(former);
  expect(after(changed), label).toMatchObject({ plan: "pro", resets: 1 });
  expect(after(later), label).toBeUndefined();
  for (const id of [revoked, rotated, changed]) {
    expect(after(id).revision, label).toBeGreaterThan(before(id).revision);
  }
  expect(
    rows("SELECT details FROM key_changes WHERE action = 'restore'").at(-1)?.details,
    label,
  ).toContain(bookmark);
}

describe("keys restore", () => {
  it("takes the settings back, and keeps revocations, rotations and resets", async () => {
    const before = await changeKeys();
    const report = await json("restore", "--bookmark", before.bookmark, "--yes");
    expect(report).toEqual({
      bookmark: before.bookmark,
      before: expect.any(String),
      kept: [before.revoked, before.rotated],
    });
    expectRestored(before);
    const { stdout, stderr } = await run("restore", "--bookmark", report.before, "--yes");
    expect(stdout + stderr).toContain("The keys of staging are back at");
    expect(rows(`SELECT plan FROM api_keys WHERE id = '${before.changed}'`)).toEqual([
      { plan: "free" },
    ]);
  });

  it("finds the state of a time, and asks first", async () => {
    await create("Old");
    database().bookmark();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2_000 });
    const at = new Date(Date.now() - 1_000).toISOString();
    const outcome = await run("restore", "--at", at);
    vi.useRealTimers();
    expect(outcome).toEqual(
      failure("All changes since are undone, except revocations and rotations"),
    );
  });

  it.each([
    [["--yes"], "name the state"],
    [["--at", "2020-01-01"], "within the last 30 days"],
    [["--at", "2999-01-01"], "within the last 30 days"],
  ])("refuses %j", async (args, message) => {
    expect(await run("restore", ...args)).toEqual(failure(message, 2));
    const local = await runInProcess(keysProgram(), ["restore", ...args]);
    expect(local).toEqual(failure("name the environment with --env", 2));
  });

  it("after a disk that was full while it saved the keys, the same command again ends it", async () => {
    const before = await changeKeys();
    const restore = ["restore", "--bookmark", before.bookmark, "--yes"];
    const write = vi.spyOn(fs, "writeFile").mockImplementationOnce(async (file) => {
      writeFileSync(file as string, '{"before":"00');
      throw Object.assign(new Error("ENOSPC"), { code: "ENOSPC", syscall: "write" });
    });
    syncBuiltinESMExports();
    expect(await run(...restore)).toEqual(failure("does not fit on the disk"));
    write.mockRestore();
    syncBuiltinESMExports();
    expect((await run(...restore)).stdout).toContain("The keys of staging are back at");
    expectRestored(before);
  });

  it("whatever happens at any call, the same command again ends it", async () => {
    let before!: Before;
    const restore = () => run("restore", "--bookmark", before.bookmark, "--yes", "--json");
    const attempt = async () => {
      database().sqlite.exec("DELETE FROM api_keys");
      rmSync(saved, { force: true });
      const { interfere } = cloudflare;
      cloudflare.interfere = () => {};
      before = await changeKeys();
      cloudflare.interfere = interfere;
      return restore();
    };
    await atEveryCall(cloudflare, attempt, async ({ status }, label) => {
      if (status === 0) return expectRestored(before, label);
      const again = await restore();
      expect(again.status, `${label}\n${again.stderr}`).toBe(0);
      expectRestored(before, label);
    });
  });
});
