import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeEach, expect, it, vi } from "vitest";
import { hashSecret } from "../../../src/rules/keys/secret.ts";
import { errorMessage } from "../../../src/operator/command-line.ts";
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
  const failing = runRealWrangler(["deploy", "--config", "/missing.toml"]).catch(errorMessage);
  const columns = ["-A", "-ww", "-o", "pid=,ppid=,pgid=,args="];
  const { stdout } = await promisify(execFile)("ps", columns);
  const child = new RegExp(`^ *(\\d+) +${process.pid} +(\\d+) .*wrangler\\.js`, "m").exec(stdout);
  // It has a process group of its own.
  expect(child?.[2]).toBe(child?.[1] ?? "a child");
  vi.mocked(wrangler.runWrangler).mockResolvedValueOnce(`A notice.\n${await printing}`);
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
  await json("list");
  cloudflare.logIn();
  const missing = "ENOENT: no such file or directory, open '/missing.toml'";
  expect(await failing).toBe(`Could not read file: /missing.toml\n${missing}`);
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
      return () => {
        // A limiter may have banned the key meanwhile.
        rows("INSERT INTO key_bans SELECT id, 0, 1e15, 1, NULL FROM api_keys");
        lose();
      };
    };
    const { key } = await json(line);
    cloudflare.interfere = () => {};
    expect(isLost).toBe(true);
    expect(keys()).toContainEqual(expect.objectContaining({ hash: hashSecret(key) }));
  },
);

const ENDS = "This ends the present secret for good: clients that send it are answered 401.";
const FORGETS = "This forgets the counts of both windows, its ban and its earlier bans for good.";
const NAMED = "The key ID in staging: Shop, plan pro.";
it.each([
  ["revoke ID OTHER", `${NAMED}\nThe key OTHER in staging: Shop, plan free.\n${ENDS}`],
  ["rotate ID --grace 59m", `${NAMED}\n${ENDS}`],
  ["reset ID", `${NAMED}\n${FORGETS}`],
  ["undo ID --since 2026-01-01", "In staging, this revokes, because they were created since: ID."],
])("keys %s changes nothing unless the operator types the environment", async (line, said) => {
  const other = await create("--plan free");
  const named = (text: string) => text.replaceAll("ID", id).replaceAll("OTHER", other);
  const before = keys();
  const asked = `${named(said)}\nThe account is Pets (${cloudflare.accounts[0]!.id}).\n`;
  const refused = "Type staging to go on: error: not confirmed: nothing was changed\n";
  for (const [input, end] of [
    [undefined, /^error: nothing was changed, .*: confirm with --yes, typed after --\n$/],
    ["", refused],
    ["stag\n", refused],
  ] as const) {
    const { stderr, ...outcome } = await run(named(line), input);
    expect(outcome).toEqual({ status: 1, stdout: "" });
    expect(stderr.slice(0, asked.length)).toBe(asked);
    expect(stderr.slice(asked.length)).toMatch(end);
  }
  expect(keys()).toEqual(before);
  expect(await run(named(line), " staging \n")).toMatchObject({ status: 0 });
  expect(keys()).not.toEqual(before);
});

it.each([
  ["update ID --plan business", true],
  ["revoke ID --yes", true],
  ["create --plan pro --name New", false],
  ["rotate ID --grace 60m", false],
  ["reset ID --yes", false],
])("keys %s that ends before its answer says how to go on", async (line, isRepeated) => {
  for (const end of [interrupt, lose]) {
    id = await create();
    let isOver = false;
    cloudflare.interfere = ({ body }) => {
      if (isOver && end === lose) lose();
      isOver ||= body.includes("insert into");
      return isOver ? end : undefined;
    };
    const { stderr, ...outcome } = await run(line);
    cloudflare.interfere = () => {};
    expect(outcome).toEqual({ status: 1, stdout: "" });
    const named = /`npm run keys -- audit (\S+) --env staging`/.exec(stderr)?.[1] ?? id;
    const changed = await json(`audit ${named}`);
    expect(changed[0].action).toBe(line.split(" ")[0]);
    const why = end === lose ? "connection is lost" : "ended by SIGINT before it was known whether";
    expect(stderr).toContain(why);
    if (isRepeated) {
      expect(stderr).toMatch(/\. Run the same command again\n$/);
      expect(await run(line)).toMatchObject({ status: 0 });
      expect(await json(`audit ${named}`)).toEqual(changed);
    } else {
      const advice = "before you run the same command again: if the change was made, do not";
      expect(stderr).toContain(advice);
      expect(stderr).toContain(`npm run keys -- rotate ${named} --env staging`);
    }
  }
});

/**
 * What actors do, from `since` on. `A` is the key of each test, `B` is like it, and each further key
 * has the next letter. After an undo stand the keys that it changed, and then all keys, whose plan
 * is `pro` and whose state is active unless the words say something else.
 */
const STORIES = {
  "undo gives settings back, revokes new keys, and revives no secret that ended": `
    ada create --name Own --plan enterprise --per-minute 5 --per-day 9
    ada create --name Rotated --plan pro
    ada create --name Expired --plan pro
    since
    ada update A --plan free --name Mine --expires 2099-01-01
    ada update A --plan business
    ada reset A --yes
    ada update B --name Ended
    ada revoke B --yes
    ada update C --plan free
    ada rotate D --grace 0 --yes
    ada update E --name Late --expires 2099-01-01
    expires E
    ada create --name New --plan pro
    ada update F --name Newer --plan free
    ada undo
    gives back [A,B,C,E], revokes [F]: A Shop, B Shop revoked, C Own enterprise 5 9, D Rotated, E Expired expired, F New revoked`,
  "undo of one actor or key keeps the changes of others, also on the same key": `
    since
    mallory update A --plan free --name Mallory
    ada update A --name Ada
    mallory update B --plan free
    ada create --name New --plan pro
    ada undo A --actor mallory
    gives back [A], revokes []: A Ada, B Shop free, C New
    ada undo --actor mallory
    gives back [B], revokes []: A Ada, B Shop, C New
    ada undo C
    gives back [], revokes [C]: A Ada, B Shop, C New revoked`,
  "undo leaves what somebody else has chosen since, even the same value, and what it took back itself": `
    ada create --name Shop --plan pro
    since
    mallory update A --plan business
    mallory update B --plan business
    mallory update C --plan business
    ada undo A --actor mallory
    gives back [A], revokes []: A Shop, B Shop business, C Shop business
    ada update A --plan business
    ada update B --plan enterprise --per-minute 1000 --per-day 9
    ada undo C --actor mallory
    gives back [C], revokes []: A Shop business, B Shop enterprise 1000 9, C Shop
    mallory update C --plan free
    ada undo --actor mallory
    gives back [C], revokes []: A Shop business, B Shop enterprise 1000 9, C Shop`,
  "undo leaves what it went back to for an undo of another actor, or since an earlier time": `
    since
    bob update A --name Bob
    mallory update A --name Mallory
    ada undo A --actor mallory
    gives back [A], revokes []: A Bob, B Shop
    ada undo A --actor bob
    gives back [A], revokes []: A Shop, B Shop
    ada update B --name First --expires 2099-01-01
    since
    ada update B --name Second --expires never
    ada undo
    gives back [B], revokes []: A Shop, B First 2099
    earlier
    ada undo
    gives back [B], revokes []: A Shop, B Shop`,
};
it.each(Object.entries(STORIES))("%s", async (_, story) => {
  const ids = [id, await create()];
  /** The last changes before the times from which an undo takes back all. */
  const since: number[] = [];
  const lastChange = () => rows("SELECT max(id) AS last FROM key_changes")[0].last;
  const lettersOf = (of: string[]) => {
    const letters = of.map((each) => "ABCDEF"[ids.indexOf(each)]);
    return letters.toSorted().join();
  };
  /** Undoes, and then once more, which changes nothing. Returns what it changed. */
  const undo = async (actor: string, typed: string) => {
    // Secrets and resets, which no undo changes.
    const kept = () => [
      rows("SELECT hash, resets FROM api_keys ORDER BY id"),
      rows("SELECT * FROM former_key_hashes"),
    ];
    const before = kept();
    const last = lastChange();
    const [{ at }] = rows(`SELECT min(at) AS at FROM key_changes WHERE id > ${since.at(-1)}`);
    const line = `${typed} --since ${new Date(at).toISOString()}`;
    const { restored, revoked } = await json(`${line} --yes`);
    const trail = rows(`SELECT actor, action, key_id FROM key_changes WHERE id > ${last}`);
    const ended = [...restored, ...revoked].map((key) => ({ actor, action: "undo", key_id: key }));
    expect(new Set(trail)).toEqual(new Set(ended));
    expect(await json(line)).toEqual({ restored: [], revoked: [] });
    expect(kept()).toEqual(before);
    return `gives back [${lettersOf(restored)}], revokes [${lettersOf(revoked)}]`;
  };
  const stateOf = async (key: string) => {
    const { name, plan, perMinute, perDay, state, expiresAt } = await json(`show ${key}`);
    const limits = plan === "enterprise" ? [plan, perMinute, perDay] : plan === "pro" ? [] : [plan];
    const end = state === "active" ? expiresAt?.slice(0, 4) : state;
    return [lettersOf([key]), name, ...limits, end].join(" ").trim();
  };
  let changed = "";
  for (const line of story.trim().split(/\n */)) {
    const [actor = "", ...words] = line.split(" ");
    const typed = words.map((word) => ids["ABCDEF".indexOf(word)] ?? word).join(" ");
    vi.stubEnv("STORE_ORDERS_ACTOR", actor);
    if (actor === "since") since.push(lastChange());
    else if (actor === "earlier") since.pop();
    else if (actor === "expires") rows(`UPDATE api_keys SET expires_at = 1 WHERE id = '${typed}'`);
    else if (actor === "gives") {
      const states = await Promise.all(ids.map(stateOf));
      expect(`${changed}: ${states.join(", ")}`).toBe(line);
    } else if (words[0] === "undo") changed = await undo(actor, typed);
    else {
      const { id: key } = await json(typed);
      if (words[0] === "create") ids.push(key);
    }
  }
});

it("undo is planned anew if another change comes first", async () => {
  await json("update ID --plan free");
  const [{ at }] = await json("audit ID");
  cloudflare.interfere = ({ body }) => {
    if (!/insert into \W*key_changes/i.test(String(body))) return;
    rows("UPDATE api_keys SET name = 'Other', revision = revision + 1");
    cloudflare.interfere = () => {};
  };
  expect(await json(`undo ID --since ${at} --yes`)).toEqual({ restored: [id], revoked: [] });
  expect(await json("show ID")).toMatchObject({ name: "Other", plan: "pro" });
});

it("undo, however it fails, takes back all or nothing, and the same command ends it", async () => {
  const ids = [id, await create()];
  const both = `WHERE id IN ('${ids.join("','")}')`;
  const plans = () => rows(`SELECT DISTINCT plan FROM api_keys ${both}`).map(({ plan }) => plan);
  for (const each of ids) await json(`update ${each} --plan free`);
  const [{ at }] = await json("audit ID");
  const undo = () => run(`undo --since ${at} --yes`);
  const attempt = () => {
    rows(`UPDATE api_keys SET plan = 'free' ${both}`);
    return undo();
  };
  const unknown = "before it was known whether the changes were taken back: run the same command";
  let errors = "";
  await atEveryCall(cloudflare, attempt, async (outcome, label) => {
    errors += outcome.stderr;
    expect(plans(), label).toHaveLength(1);
    if (label.startsWith("a signal")) expect(outcome, label).toEqual(failure(unknown));
    if (outcome.status !== 0) expect((await undo()).status, label).toBe(0);
    expect(plans(), label).toEqual(["pro"]);
  });
  expect(errors).toMatch(/known whether the change was made\. Run the same command again$/m);
});
