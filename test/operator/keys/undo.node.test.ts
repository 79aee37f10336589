import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
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
  await json("update", added, "--name", "Later", "--plan", "free");
  const stored = () => rows("SELECT * FROM api_keys ORDER BY id");
  const after = stored();

  const question = "gives back the former settings of";
  expect(await run("undo", "--since", since)).toEqual(failure(question));
  expect(stored()).toEqual(after);
  const report = await json("undo", "--since", since, "--yes");
  expect(report.revoked).toEqual([added]);
  expect(report.restored.toSorted()).toEqual([changed, own, revoked, expired].toSorted());
  const now = Object.fromEntries((await json("list")).map((key: any) => [key.id, key]));
  for (const { id, name, plan, perMinute, perDay } of before) {
    expect(now[id]).toMatchObject({ name, plan, perMinute, perDay });
  }
  expect(now[changed].expiresAt).toBe(null);
  expect(now[added]).toMatchObject({ name: "Shop", plan: "pro" });
  const states = [changed, own, revoked, rotated, expired, added].map((id) => now[id].state);
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

const STORIES = {
  "undo of one actor or key keeps the changes of others, also on the same key": `
    mallory update A --plan free --name Mallory
    ada update A --name Ada
    mallory update B --plan free
    ada undo A --actor mallory
    restored A: A Ada pro, B Shop free, C Shop pro
    ada undo --actor mallory
    restored B: A Ada pro, B Shop pro, C Shop pro`,
  "undo leaves what somebody else has chosen since, even the same value, and what it took back itself": `
    mallory update A --plan business
    mallory update B --plan business
    mallory update C --plan business
    ada undo A --actor mallory
    restored A: A Shop pro, B Shop business, C Shop business
    ada update A --plan business
    ada update B --plan enterprise --per-minute 1000 --per-day 9
    ada undo C --actor mallory
    restored C: A Shop business, B Shop enterprise 1000 9, C Shop pro
    mallory update C --plan free
    ada undo --actor mallory
    restored C: A Shop business, B Shop enterprise 1000 9, C Shop pro`,
  "an undo of one actor leaves what it went back to for an undo of another": `
    bob update A --name Bob
    mallory update A --name Mallory
    ada undo A --actor mallory
    restored A: A Bob pro, B Shop pro, C Shop pro
    ada undo A --actor bob
    restored A: A Shop pro, B Shop pro, C Shop pro`,
};
it.each(Object.entries(STORIES))("%s", async (_, story) => {
  const ids: Record<string, string> = {
    A: victim,
    B: await create(...PRO),
    C: await create(...PRO),
  };
  const letterOf = (id: string) => Object.keys(ids).find((letter) => ids[letter] === id);
  const since = later();
  let restored: readonly string[] = [];
  for (const line of story.trim().split(/\n */)) {
    const [actor = "", command = "", ...words] = line.split(" ");
    if (actor === "restored") {
      const keys = await Promise.all(Object.values(ids).map((id) => json("show", id)));
      const states = keys.map(({ id, name, plan, perMinute, perDay }) => {
        const limits = plan === "enterprise" ? [perMinute, perDay] : [];
        return [letterOf(id), name, plan, ...limits].join(" ");
      });
      expect(`restored ${restored.map(letterOf).join()}: ${states.join(", ")}`).toBe(line);
      continue;
    }
    const typed = [command, ...words.map((word) => ids[word] ?? word)];
    const more = command === "undo" ? ["--since", since, "--yes"] : [];
    vi.stubEnv("STORE_ORDERS_ACTOR", actor);
    ({ restored } = await json(...typed, ...more));
  }
  vi.stubEnv("STORE_ORDERS_ACTOR", undefined);
});

it("undo takes back the change at the time itself, and is planned anew if another one comes first", async () => {
  later();
  await json("update", victim, "--plan", "free");
  const [{ at }] = await json("audit", victim);
  let isOvertaken = false;
  cloudflare.interfere = ({ body }) => {
    if (isOvertaken || !/insert into \W*key_changes/i.test(String(body))) return;
    isOvertaken = true;
    rows(`UPDATE api_keys SET name = 'Other', revision = revision + 1 RETURNING id`);
  };
  onTestFinished(() => void (cloudflare.interfere = () => {}));
  const undone = await json("undo", victim, "--since", at, "--yes");
  expect([isOvertaken, undone.restored]).toEqual([true, [victim]]);
  expect(await json("show", victim)).toMatchObject({ name: "Other", plan: "pro" });
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
