import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { failure, runInProcess } from "../commands.ts";
import { runRealWrangler, useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { atEveryCall, interrupt, lose } from "../deploy/faults.ts";

const cloudflare = useFakeCloudflare("staging");
/** Runs a statement on the keys database, and returns its rows. */
const rows = (sql: string): any[] =>
  cloudflare.d1.find("store-orders-staging-keys").sqlite.prepare(sql).all();
const keys = () => rows("SELECT * FROM api_keys ORDER BY id");

/** The key that `ID` stands for in a command. */
let id: string;
beforeEach(async () => void (id = await create()));

async function create(options = "--plan pro"): Promise<string> {
  return (await json(`create --name Shop ${options}`)).id;
}

/** Runs a command of `npm run keys` on staging, in a terminal if its input is given. */
function run(line: string, input?: string) {
  const args = [...line.replace("ID", id).split(" "), "--env", "staging"];
  return runInProcess(keysProgram(), args, input, { isTerminal: input !== undefined });
}

async function json(line: string): Promise<any> {
  const { status, stdout, stderr } = await run(`${line} --json`);
  expect([status, stderr]).toEqual([0, expect.stringMatching(/^(?:warning: .*\n)?$/)]);
  return JSON.parse(stdout);
}

it("the real wrangler prints the token with which commands log in, and does not receive the terminal's Ctrl+C", async () => {
  const printing = runRealWrangler(["auth", "token"]);
  const columns = ["-A", "-ww", "-o", "pid=,ppid=,pgid=,args="];
  const { stdout } = await promisify(execFile)("ps", columns);
  const child = new RegExp(`^ *(\\d+) +${process.pid} +(\\d+) .*wrangler\\.js`, "m").exec(stdout);
  // It has a process group of its own.
  expect(child?.[2]).toBe(child?.[1] ?? "a child");
  vi.mocked(wrangler.runWrangler).mockResolvedValueOnce(`A notice.\n${await printing}`);
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
  await json("list");
  cloudflare.logIn();
});

it.each(["create --plan pro --name Lost", "rotate ID --grace 0 --yes"])(
  "keys %s needs only the permission for D1, and does not lose the secret whose answer is lost",
  async (line) => {
    // Gives the key a former secret that has already expired.
    await json("rotate ID --grace 0 --yes");
    let isLost = false;
    cloudflare.interfere = ({ path, body }) => {
      expect.soft(path).toMatch(/^\/d1\//);
      if (isLost || !body.includes("insert into")) return undefined;
      isLost = true;
      return lose;
    };
    const { key } = await json(line);
    cloudflare.interfere = () => {};
    expect(isLost).toBe(true);
    expect(keys()).toContainEqual(expect.objectContaining({ hash: hashSecret(key) }));
  },
);

it.each(["revoke ID", "reset ID", "rotate ID --grace 59m"])(
  "keys %s changes nothing unless the operator types the environment",
  async (line) => {
    const before = keys();
    expect(await run(line)).toEqual(failure(`The key ${id} in staging: Shop, plan pro.\n`));
    const refused = failure("error: not confirmed: nothing was changed");
    expect(await run(line, "stag\n")).toEqual(refused);
    expect(keys()).toEqual(before);
    expect(await run(line, "staging\n")).toMatchObject({ status: 0 });
    expect(keys()).not.toEqual(before);
  },
);

it.each(["update ID --plan business", "revoke ID --yes"])(
  "keys %s that a signal ends before its answer is typed again",
  async (line) => {
    cloudflare.interfere = ({ body }) => (body.includes("insert into") ? interrupt : undefined);
    expect(await run(line)).toEqual(failure("was changed. Run the same command again\n"));
    cloudflare.interfere = () => {};
    const changes = await json("audit ID");
    expect(await run(line)).toMatchObject({ status: 0 });
    expect(await json("audit ID")).toEqual(changes);
  },
);

it.each(["create --plan pro --name New", "rotate ID", "reset ID --yes"])(
  "keys %s that ends before its answer names the key to look at",
  async (line) => {
    for (const end of [interrupt, lose]) {
      let isOver = false;
      cloudflare.interfere = ({ body }) => {
        if (isOver && end === lose) lose();
        isOver ||= body.includes("insert into");
        return isOver ? end : undefined;
      };
      const outcome = await run(line);
      cloudflare.interfere = () => {};
      expect(outcome).toEqual(failure("before you run the same command again"));
      const named = /`npm run keys -- audit (\S+) --env staging`/.exec(outcome.stderr)?.[1] ?? "";
      expect(outcome.stderr).toContain(`npm run keys -- rotate ${named} --env staging`);
      expect((await json(`audit ${named}`))[0]).toMatchObject({ action: line.split(" ")[0] });
    }
  },
);

/** Moves the trail so far into the past. Returns a time after it. */
function later(): string {
  rows("DROP TRIGGER IF EXISTS key_changes_are_not_rewritten");
  rows("UPDATE key_changes SET at = at - 60000");
  return new Date(Date.now() - 30_000).toISOString();
}

it("undo gives settings back, revokes new keys, and revives no secret that ended", async () => {
  const own = await create("--plan enterprise --per-minute 5 --per-day 9");
  const [revoked, rotated, expired] = [await create(), await create(), await create()];
  const before = await json("list");
  const since = later();
  await json("update ID --plan free --name Mine --expires 2099-01-01");
  await json("update ID --plan business");
  await json("reset ID --yes");
  await json(`update ${own} --plan free`);
  await json(`update ${revoked} --name Ended`);
  await json(`revoke ${revoked} --yes`);
  await json(`rotate ${rotated} --grace 0 --yes`);
  await json(`update ${expired} --name Late --expires 2099-01-01`);
  // It has expired since, by an update that said so.
  rows(`UPDATE api_keys SET expires_at = ${Date.now() - 1_000} WHERE id = '${expired}'`);
  const added = await create();
  await json(`update ${added} --name Later --plan free`);
  const after = keys();

  const undo = `undo --since ${since}`;
  expect(await run(undo)).toEqual(failure("gives back the former settings of"));
  expect(keys()).toEqual(after);
  const report = await json(`${undo} --yes`);
  expect(report.revoked).toEqual([added]);
  expect(report.restored.toSorted()).toEqual([id, own, revoked, expired].toSorted());
  const now = Object.fromEntries((await json("list")).map((key: any) => [key.id, key]));
  for (const { id: each, name, plan, perMinute, perDay } of before) {
    expect(now[each]).toMatchObject({ name, plan, perMinute, perDay });
  }
  expect(now[id].expiresAt).toBe(null);
  expect(now[added]).toMatchObject({ name: "Shop", plan: "pro" });
  const states = [id, own, revoked, rotated, expired, added].map((each) => now[each].state);
  expect(states).toEqual(["active", "active", "revoked", "active", "expired", "revoked"]);
  const done = keys();
  for (const [index, { hash, resets, revision }] of after.entries()) {
    expect(done[index]).toMatchObject({ hash, resets });
    if (done[index].id === id) expect(done[index].revision).toBeGreaterThan(revision);
  }
  const [{ action, details }] = await json("audit ID");
  expect([action, details.plan]).toEqual(["undo", { from: "business", to: "pro" }]);
  // The same command again changes nothing.
  expect(await json(`${undo} --yes`)).toEqual({ restored: [], revoked: [] });
  expect(keys()).toEqual(done);
});

/** `A` is the key of each test, and `B` and `C` are like it. */
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
  const ids = [id, await create(), await create()];
  const letterOf = (key: string) => "ABC"[ids.indexOf(key)];
  const since = later();
  let restored: readonly string[] = [];
  for (const line of story.trim().split(/\n */)) {
    if (line.startsWith("restored")) {
      const shown = await Promise.all(ids.map((key) => json(`show ${key}`)));
      const states = shown.map(({ id: key, name, plan, perMinute, perDay }) => {
        const limits = plan === "enterprise" ? [perMinute, perDay] : [];
        return [letterOf(key), name, plan, ...limits].join(" ");
      });
      expect(`restored ${restored.map(letterOf).join()}: ${states.join(", ")}`).toBe(line);
      continue;
    }
    const [actor = "", ...words] = line.split(" ");
    vi.stubEnv("STORE_ORDERS_ACTOR", actor);
    const typed = words.join(" ").replace(/\b[ABC]\b/, (letter) => ids["ABC".indexOf(letter)]!);
    ({ restored } = await json(`${typed}${words[0] === "undo" ? ` --since ${since} --yes` : ""}`));
  }
  vi.stubEnv("STORE_ORDERS_ACTOR", undefined);
});

it("undo takes back the change at the time itself, and is planned anew if another one comes first", async () => {
  later();
  await json("update ID --plan free");
  const [{ at }] = await json("audit ID");
  let isOvertaken = false;
  cloudflare.interfere = ({ body }) => {
    if (isOvertaken || !/insert into \W*key_changes/i.test(String(body))) return;
    isOvertaken = true;
    rows("UPDATE api_keys SET name = 'Other', revision = revision + 1");
  };
  onTestFinished(() => void (cloudflare.interfere = () => {}));
  const undone = await json(`undo ID --since ${at} --yes`);
  expect([isOvertaken, undone.restored]).toEqual([true, [id]]);
  expect(await json("show ID")).toMatchObject({ name: "Other", plan: "pro" });
});

it("undo since an earlier time goes back behind an undo since a later one", async () => {
  const early = later();
  await json("update ID --name First");
  const late = later();
  await json("update ID --name Second");
  expect(await json(`undo --since ${late} --yes`)).toMatchObject({ restored: [id] });
  expect(await json("show ID")).toMatchObject({ name: "First" });
  rows("UPDATE key_changes SET at = at + 60000");
  expect(await json(`undo ID --since ${early} --yes`)).toMatchObject({ restored: [id] });
  expect(await json("show ID")).toMatchObject({ name: "Shop" });
});

it("undo, however it fails, takes back all or nothing, and the same command ends it", async () => {
  const ids = [id, await create()];
  const since = later();
  const all = `FROM api_keys WHERE id IN ('${ids.join("','")}')`;
  const plans = () => rows(`SELECT DISTINCT plan ${all}`).map(({ plan }) => plan);
  for (const each of ids) await json(`update ${each} --plan free`);
  const undo = () => run(`undo --since ${since} --yes`);
  const attempt = () => {
    rows(`UPDATE api_keys SET plan = 'free' WHERE id IN (SELECT id ${all})`);
    return undo();
  };
  await atEveryCall(cloudflare, attempt, async ({ status }, label) => {
    expect(plans(), label).toHaveLength(1);
    if (status !== 0) expect((await undo()).status, label).toBe(0);
    expect(plans(), label).toEqual(["pro"]);
  });
});
