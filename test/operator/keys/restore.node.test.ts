import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { runFakeWrangler } from "../deploy/fake-wrangler.ts";
import { FAULTS, LostConnection, atEveryCall, interrupt, shortenPauses } from "../deploy/faults.ts";
import { failure, runInProcess } from "../in-process.ts";

vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const saved = join(wrangler.PROJECT_ROOT, ".wrangler", "restore-staging-keys.json");
const cloudflare = useFakeCloudflare("staging");
const database = () => cloudflare.d1.find("store-orders-staging-keys");
const rows = (sql: string): any[] => database().sqlite.prepare(sql).all();
const keyOf = (id: string) => rows(`SELECT * FROM api_keys WHERE id = '${id}'`)[0];
const formerOf = (id: string) =>
  rows(`SELECT hash, ends_at FROM former_key_hashes WHERE key_id = '${id}' ORDER BY hash`);

const run = (...args: string[]) => runInProcess(keysProgram(), [...args, "--env", "staging"]);
const json = async (...args: string[]): Promise<any> =>
  JSON.parse((await run(...args, "--json")).stdout);
const create = async (name: string) => (await json("create", "--plan", "pro", "--name", name)).id;
const restore = (bookmark: string) => run("restore", "--bookmark", bookmark, "--yes", "--json");

let ids: Record<"revoked" | "rotated" | "changed" | "later", string>;
/** The bookmark of a state, after which keys were revoked, rotated, reset, changed and created. */
let bookmark: string;
/** The bookmark of the state after these changes, and its keys. */
let changed: string;
let keysBefore: ReadonlyMap<string, any>;
let former: object[];

beforeAll(async () => {
  shortenPauses();
  const [revoked, rotated] = [await create("Revoked"), await create("Rotated")];
  ids = { revoked, rotated, changed: await create("Changed"), later: "" };
  await json("rotate", ids.rotated, "--grace", "24h");
  bookmark = database().bookmark();
  await json("revoke", ids.revoked, "--yes");
  await json("rotate", ids.rotated, "--grace", "0", "--yes");
  await json("reset", ids.changed, "--yes");
  await json("update", ids.changed, "--plan", "free");
  ids.later = await create("Later");
  keysBefore = new Map(rows("SELECT * FROM api_keys").map((key) => [key.id, key]));
  former = formerOf(ids.rotated);
  changed = database().bookmark();
});
beforeEach(() => {
  rmSync(saved, { force: true });
  database().restore(changed);
});
afterAll(() => rmSync(saved, { force: true }));

/** Expects the earlier settings, and that no secret that had ended is valid again. */
function expectRestored(label = "") {
  expect(keyOf(ids.revoked).revoked_at, label).toBe(keysBefore.get(ids.revoked).revoked_at);
  const { hash, last_four } = keysBefore.get(ids.rotated);
  expect(keyOf(ids.rotated), label).toMatchObject({ hash, last_four });
  expect(formerOf(ids.rotated), label).toEqual(former);
  expect(keyOf(ids.changed), label).toMatchObject({ plan: "pro", resets: 1 });
  expect(keyOf(ids.later), label).toBeUndefined();
  for (const id of [ids.revoked, ids.rotated, ids.changed]) {
    expect(keyOf(id).revision, label).toBeGreaterThan(keysBefore.get(id).revision);
  }
  const records = rows("SELECT details FROM key_changes WHERE action = 'restore'");
  expect(records, label).toEqual([{ details: expect.stringContaining(bookmark) }]);
  expect(existsSync(saved), label).toBe(false);
}

it("restore undoes no revocation, rotation or reset, and can be undone", async () => {
  // Gives up before it changes anything. Undoing must not go back to the time of this attempt.
  cloudflare.interfere = ({ path }) => {
    if (path.endsWith("/restore")) throw new LostConnection();
  };
  expect(await restore(bookmark)).toEqual(failure("run the same command again"));
  cloudflare.interfere = () => {};
  const last = await create("Last");
  const report = await json("restore", "--bookmark", bookmark, "--yes");
  const kept = [ids.revoked, ids.rotated];
  expect(report).toEqual({ bookmark, before: expect.any(String), kept });
  expectRestored();
  expect(keyOf(last)).toBeUndefined();
  expect(await run("restore", "--bookmark", report.before, "--yes")).toMatchObject({ status: 0 });
  expect(keyOf(ids.changed)).toMatchObject({ plan: "free" });
  for (const id of [ids.later, last]) expect(keyOf(id)).toBeDefined();
});

it("restore takes times of the last 30 days, and changes nothing without a yes", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2_000 });
  const at = new Date(Date.now() - 1_000).toISOString();
  const question = "All changes since are undone, except revocations and rotations";
  expect(await run("restore", "--at", at)).toEqual(failure(question));
  vi.useRealTimers();
  for (const time of ["2020-01-01", "2999-01-01"]) {
    const refused = failure("within the last 30 days", 2);
    expect(await run("restore", "--yes", "--at", time)).toEqual(refused);
  }
  expect(rows("SELECT * FROM api_keys")).toEqual([...keysBefore.values()]);
});

it("restore, however it fails, is ended by the same command and loses no revocation", async () => {
  const attempt = () => {
    rmSync(saved, { force: true });
    database().restore(changed);
    return restore(bookmark);
  };
  const check: Parameters<typeof atEveryCall>[2] = async ({ status, stderr }, label) => {
    if (status === 0) return expectRestored(label);
    const isUndone = keyOf(ids.revoked).revoked_at === null;
    if (isUndone) expect(stderr, label).toContain("run the same command again");
    // Another operator revokes a key meanwhile.
    const { revokedAt } = await json("revoke", ids.changed, "--yes");
    const again = await restore(bookmark);
    expect(again.status, `${label}\n${again.stderr}`).toBe(0);
    expectRestored(label);
    expect(keyOf(ids.changed).revoked_at, label).toBe(Date.parse(revokedAt));
    // Undoing takes the keys back to the state before the first attempt.
    await json("restore", "--bookmark", JSON.parse(again.stdout).before, "--yes");
    expect(keyOf(ids.later), label).toBeDefined();
  };
  const during = { "a signal during it": (position: number) => () => interrupt(position) };
  await atEveryCall(cloudflare, attempt, check, { ...FAULTS, ...during });
});

it.each([
  ["update", "ID", "--plan", "business"],
  ["revoke", "ID", "--yes"],
])("keys %s that a signal ends before its answer is typed again", async (...line) => {
  cloudflare.interfere = ({ body }) => (body.includes("insert into") ? interrupt : undefined);
  const typed = line.map((word) => (word === "ID" ? ids.changed : word));
  expect(await run(...typed)).toEqual(failure("was changed. Run the same command again\n"));
  cloudflare.interfere = () => {};
  const changes = await json("audit", ids.changed);
  expect(await run(...typed)).toMatchObject({ status: 0 });
  expect(await json("audit", ids.changed)).toEqual(changes);
});

it.each([
  ["create", "--plan", "pro", "--name", "New"],
  ["rotate", "ID"],
  ["reset", "ID", "--yes"],
])("keys %s that a signal ends before its answer names the key to look at", async (...line) => {
  cloudflare.interfere = ({ body }) => (body.includes("insert into") ? interrupt : undefined);
  const outcome = await run(...line.map((word) => (word === "ID" ? ids.changed : word)));
  cloudflare.interfere = () => {};
  expect(outcome).toEqual(failure("before you run the same command again"));
  const id = /`npm run keys -- audit (\S+) --env staging`/.exec(outcome.stderr)?.[1] ?? "";
  expect(outcome.stderr).toContain(`npm run keys -- rotate ${id} --env staging`);
  expect((await json("audit", id))[0]).toMatchObject({ action: line[0] });
});
