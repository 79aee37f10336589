import { beforeEach, expect, it, vi } from "vitest";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { FAULTS, atEveryCall } from "../deploy/faults.ts";
import { failure, runInProcess } from "../commands.ts";

const cloudflare = useFakeCloudflare("staging");
const database = () => cloudflare.d1.find("store-orders-staging-keys");
const rows = (sql: string): any[] => database().sqlite.prepare(sql).all();
const run = (...args: string[]) => runInProcess(keysProgram(), [...args, "--env", "staging"]);
const json = async (...args: string[]): Promise<any> =>
  JSON.parse((await run(...args, "--json")).stdout);
const create = async (...args: string[]) =>
  (await json("create", "--name", "Shop", ...(args.length > 0 ? args : ["--plan", "free"]))).id;
const PRO = ["--plan", "pro"];
const OWN = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "9"];

/** Runs `work` in the name of an operator. */
function as<T>(actor: string, work: () => Promise<T>): Promise<T> {
  vi.stubEnv("STORE_ORDERS_ACTOR", actor);
  return work().finally(() => vi.stubEnv("STORE_ORDERS_ACTOR", undefined));
}

/** Moves the trail so far into the past. Returns a time after it. */
function later(): string {
  database().sqlite.exec("DROP TRIGGER IF EXISTS key_changes_are_not_rewritten");
  database().sqlite.exec("UPDATE key_changes SET at = at - 60000");
  return new Date(Date.now() - 30_000).toISOString();
}

let victim: string;
beforeEach(async () => void (victim = await create(...PRO)));

it("undo gives settings back, revokes new keys, and revives no secret that ended", async () => {
  const [changed, own] = [victim, await create(...OWN)];
  const [revoked, rotated] = [await create(...PRO), await create(...PRO)];
  const expired = await create(...PRO);
  const before = await json("list");
  const since = later();
  await json("update", changed, "--plan", "free", "--name", "Mine", "--expires", "2099-01-01");
  await json("update", changed, "--plan", "business");
  await json("reset", changed, "--yes");
  await json("update", own, "--plan", "free");
  await json("update", revoked, "--name", "Ended");
  await json("revoke", revoked, "--yes");
  await json("rotate", rotated, "--grace", "0", "--yes");
  await json("update", expired, "--name", "Late", "--expires", "2099-01-01");
  const past = Date.now() - 1_000;
  // It has expired since, by an update that said so.
  database().sqlite.exec(`UPDATE api_keys SET expires_at = ${past} WHERE id = '${expired}'`);
  const added = await create(...PRO);
  const stored = () => rows("SELECT * FROM api_keys ORDER BY id");
  const after = stored();

  const question = "gives back the former settings of";
  expect(await run("undo", "--since", since)).toEqual(failure(question));
  expect(stored()).toEqual(after);
  const report = await json("undo", "--since", since, "--yes");
  expect(report.revoked).toEqual([added]);
  expect(report.restored.toSorted()).toEqual([changed, own, revoked, expired].toSorted());
  const now = new Map<string, any>((await json("list")).map((key: any) => [key.id, key]));
  for (const key of before) {
    const { name, plan, perMinute, perDay } = key;
    expect(now.get(key.id)).toMatchObject({ name, plan, perMinute, perDay });
  }
  expect(now.get(changed).expiresAt).toBe(null);
  const states = [changed, own, revoked, rotated, expired, added].map((id) => now.get(id).state);
  expect(states).toEqual(["active", "active", "revoked", "active", "expired", "revoked"]);
  for (const { id, hash, resets, revision } of after) {
    const [key] = rows(`SELECT * FROM api_keys WHERE id = '${id}'`);
    expect(key).toMatchObject({ hash, resets });
    if (id === changed) expect(key.revision).toBeGreaterThan(revision);
  }
  const [{ action, details }] = await json("audit", changed);
  expect([action, details.plan]).toEqual(["undo", { from: "business", to: "pro" }]);
  // The same command again changes nothing.
  const done = stored();
  expect(await json("undo", "--since", since, "--yes")).toEqual({ restored: [], revoked: [] });
  expect(stored()).toEqual(done);
});

it("undo of one actor or key keeps the changes of others, also on the same key", async () => {
  const [one, other] = [await create(...PRO), await create(...PRO)];
  const since = later();
  await as("mallory", () => json("update", one, "--plan", "free", "--name", "Mallory's"));
  await as("ada", () => json("update", one, "--name", "Ada's"));
  await as("mallory", () => json("update", other, "--plan", "free"));
  const plan = async (id: string) => (await json("show", id)).plan;
  const undo = (...args: string[]) => json("undo", ...args, "--since", since, "--yes");
  expect(await undo(one, "--actor", "mallory")).toEqual({ restored: [one], revoked: [] });
  expect(await json("show", one)).toMatchObject({ plan: "pro", name: "Ada's" });
  expect(await plan(other)).toBe("free");
  expect(await undo("--actor", "mallory")).toEqual({ restored: [other], revoked: [] });
  expect(await plan(other)).toBe("pro");
  expect(await run("undo", "key_nobody", "--since", since)).toEqual(failure("no key has the id"));
});

it("undo leaves what somebody else has chosen since, even the same value, and what it took back itself", async () => {
  const [paid, own, twice] = [await create(), await create(), await create()];
  const since = later();
  const undo = (...more: string[]) =>
    json("undo", "--actor", "mallory", "--since", since, "--yes", ...more);
  for (const id of [paid, own, twice]) {
    await as("mallory", () => json("update", id, "--plan", "pro"));
  }
  await as("ada", () => undo(paid));
  await as("ada", () => json("update", paid, "--plan", "pro"));
  // Its limit per minute is the one that mallory chose.
  await as("ada", () => json("update", own, ...OWN.with(3, "300")));
  const chosen = await json("show", own);
  await as("ada", () => undo(twice));
  await as("mallory", () => json("update", twice, "--plan", "business"));
  expect(await undo()).toEqual({ restored: [twice], revoked: [] });
  expect(await json("show", paid)).toMatchObject({ plan: "pro" });
  expect(await json("show", own)).toEqual(chosen);
  expect(await json("show", twice)).toMatchObject({ plan: "free" });
});

it("an undo of one actor leaves what it went back to for an undo of another", async () => {
  const since = later();
  await as("bob", () => json("update", victim, "--name", "Bob's"));
  await as("mallory", () => json("update", victim, "--name", "Mallory's"));
  for (const [actor, name] of [
    ["mallory", "Bob's"],
    ["bob", "Shop"],
  ] as const) {
    await json("undo", victim, "--actor", actor, "--since", since, "--yes");
    expect(await json("show", victim)).toMatchObject({ name });
  }
});

it("undo since an earlier time goes back behind an undo since a later one", async () => {
  const early = later();
  await json("update", victim, "--name", "First");
  const late = later();
  await json("update", victim, "--name", "Second");
  expect(await json("undo", "--since", late, "--yes")).toMatchObject({ restored: [victim] });
  expect(await json("show", victim)).toMatchObject({ name: "First" });
  database().sqlite.exec("UPDATE key_changes SET at = at + 60000");
  expect(await json("undo", victim, "--since", early, "--yes")).toMatchObject({
    restored: [victim],
  });
  expect(await json("show", victim)).toMatchObject({ name: "Shop" });
});

it("undo, however it fails, takes back all or nothing, and the same command ends it", async () => {
  const ids = [await create(...PRO), await create(...PRO)];
  const since = later();
  const plans = () => ids.map((id) => rows(`SELECT plan FROM api_keys WHERE id = '${id}'`)[0].plan);
  for (const id of ids) await json("update", id, "--plan", "free");
  const attempt = () => {
    for (const id of ids) rows(`UPDATE api_keys SET plan = 'free' WHERE id = '${id}' RETURNING id`);
    return run("undo", "--since", since, "--yes");
  };
  await atEveryCall(
    cloudflare,
    attempt,
    async ({ status }, label) => {
      expect(new Set(plans()).size, label).toBe(1);
      if (status === 0) return expect(plans(), label).toEqual(["pro", "pro"]);
      expect((await run("undo", "--since", since, "--yes")).status, label).toBe(0);
      expect(plans(), label).toEqual(["pro", "pro"]);
    },
    FAULTS,
  );
});
