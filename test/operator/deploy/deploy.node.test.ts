import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { unstable_readConfig as readConfig } from "wrangler";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import * as checks from "../../../src/operator/deploy/checks.ts";
import { deployProgram } from "../../../src/operator/deploy/program.ts";
import { TRIAL_PATIENCE } from "../../../src/operator/deploy/trial.ts";
import { OtherVersionError } from "../../../src/operator/verify/answer.ts";
import * as verification from "../../../src/operator/verify/verify.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { testFolder } from "../../support/test-folder.ts";
import { runInProcess } from "../commands.ts";
import { runRealWrangler, useFakeCloudflare } from "./fake-cloudflare.ts";
import { atEveryCall, interrupt, throwing } from "./faults.ts";
import { ApiError } from "./route.ts";
import { DATABASE_NAMES } from "../../../src/schema/databases.ts";

// The deployed service is a fake. `verify.node.test.ts` verifies a real one.
const verify = vi.spyOn(verification, "verifyStore");

const WORKER = "store-orders-staging";
const [ORDERS, KEYS] = [`${WORKER}-orders`, `${WORKER}-keys`];
const STAGING = ["--env", "staging"];
const CREATE = [...STAGING, "--location", "weur", "--yes"];
const PASSED = ", which has passed its trial";
/** What stderr says after faults, by their label in `atEveryCall`. */
const SAID_AFTER: readonly (readonly [label: RegExp, said: RegExp])[] = [
  // The first call belongs to a check, so no step may begin after the signal.
  [/^a signal before it, call 0,/, /ended by SIG\w+ before the deployment was complete\nNothing/],
  // A migration is looked for.
  [/^a connection that is lost after it.* POST \S+raw:/, /^$/],
  // Dividing the traffic twice does no harm, so it is repeated.
  [/^a connection that is lost (?:before|after) it.* POST \S+deployments:/, /^$/],
  [/lies.* GET \S+services/, /breaks its promises:\nHEAD: has a body\n(?:All traff|The Work)/],
];

const cloudflare = useFakeCloudflare();
let folder: string;
beforeEach(() => {
  folder = testFolder();
  copyFileSync("wrangler.toml", join(folder, "wrangler.toml"));
  TRIAL_PATIENCE.maxRetryTime = 0;
  verify.mockReset().mockResolvedValue([]);
  cloudflare.interfere = () => {};
  cloudflare.clear();
});
afterAll(() => void (TRIAL_PATIENCE.maxRetryTime = 60_000));

const deploy = (...args: readonly string[]) => runInProcess(deployProgram(folder), args);

/** Changes `wrangler.toml`. */
function configure(part: RegExp, other: string): void {
  const text = readFileSync("wrangler.toml", "utf8").replace(part, other);
  writeFileSync(join(folder, "wrangler.toml"), text);
}

const setVars = (env: string, lines: string) =>
  configure(RegExp(`env.${env}.vars]\n`), `$&${lines}`);

/** Runs git without the machine's settings. */
function git(...args: string[]): string {
  const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };
  const user = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
  return execFileSync("git", [...user, ...args], { cwd: folder, encoding: "utf8", env }).trim();
}

function commit(): string {
  git("init", "--quiet");
  git("add", "--all");
  git("commit", "--quiet", "--message=All", "--allow-empty");
  git("tag", "--force", "--message=Not the id", "v1");
  return git("rev-parse", "HEAD");
}

it("the real wrangler rolls out first where it is told, then tries each version before and after traffic", async () => {
  // It runs once for each kind of command.
  const kinds = [/^d1/, /^deploy(?!.*--dry-run)/, /^versions upload/, /@0%/, /^triggers/];
  vi.mocked(wrangler.runWrangler).mockImplementation((args, env) => {
    const kind = kinds.findIndex((pattern) => pattern.test(args.join(" ")));
    if (kind < 0) return cloudflare.runWrangler(args);
    kinds.splice(kind, 1);
    return runRealWrangler(args, env);
  });
  const worker = () => cloudflare.workers.find(WORKER);
  const tried: unknown[] = [];
  verify.mockImplementation(async ({ version, headers = {} }) => {
    tried.push([worker().current, version, ...Object.values(headers)]);
    return [];
  });
  const commitId = commit();
  const first = await deploy(...CREATE);
  expect(first).toMatchObject({ status: 0, stderr: "" });
  const before = worker().current ?? "";
  expect(cloudflare.changes.splice(0).filter((each) => !each.startsWith("write"))).toEqual([
    `create database ${ORDERS} in weur`,
    `create database ${KEYS} in weur`,
    `deploy ${WORKER} with the tag ${commitId}`,
    // Deploys the same version again, to record that the trial succeeded.
    `deploy ${WORKER}: ${before} 100 %: ${commitId}${PASSED}`,
  ]);
  expect(cloudflare.workers.crons.get(WORKER)).toEqual([{ cron: "23 * * * *" }]);

  const next = await deploy(...CREATE);
  expect(next).toMatchObject({ status: 0, stderr: "" });
  expect(kinds).toEqual([]);
  const version = worker().current ?? "";
  expect(cloudflare.changes).toEqual([
    `write to ${ORDERS}`,
    `write to ${KEYS}`,
    `upload ${WORKER} with the tag ${commitId}`,
    `deploy ${WORKER}: ${before} 100 %, ${version} 0 %: ${commitId}`,
    `deploy ${WORKER}: ${version} 100 %: ${commitId}`,
    `deploy ${WORKER}: ${version} 100 %: ${commitId}${PASSED}`,
  ]);
  const tryOf = (id: string) => [id, `${WORKER}="${id}"`];
  expect(tried).toEqual([
    [before, ...tryOf(before)],
    [before, ...tryOf(version)],
    [version, ...tryOf(version)],
  ]);
  const url = `https://${WORKER}.example.workers.dev`;
  expect(verify.mock.lastCall?.[0]).toMatchObject({ url, isReadOnly: false, isWriting: true });
  const back = `The way back to the version before: npx wrangler rollback ${before} --env staging`;
  const ends = [first, next].map(({ stdout }) => stdout.split("Deployed staging.\n")[1]);
  expect(ends).toEqual(["", `${back}\n`]);
});

for (const args of [STAGING, CREATE]) {
  it(`whatever happens at any step, deploy ${args.join(" ")} ends finished or gone back, or says what stands, and the same command finishes it`, async () => {
    // Starting git takes long.
    using _ = vi.spyOn(checks, "readCommit").mockResolvedValue(undefined);
    const isFirst = args === CREATE;
    let before: string | undefined;
    const worker = () => cloudflare.workers.scripts.get(WORKER);
    const isRecorded = () =>
      worker()?.deployments[0]?.annotations["workers/message"]?.endsWith(PASSED) === true;
    verify.mockImplementation(async ({ signal }) => {
      expect.soft(isRecorded(), "recorded before the trial").toBe(false);
      // Injects the faults into trials too: each trial makes an API call.
      const answer = await cloudflare.call(`GET /workers/services/${WORKER}`).catch((error) => {
        if (!(error instanceof ApiError)) throw error;
      });
      signal?.throwIfAborted();
      return answer ? [] : [{ promise: "HEAD", result: "broken", reason: "has a body" }];
    });
    /** Begins again with an account that has no service, or one that lacks migrations. */
    const run = () => {
      cloudflare.clear();
      before = isFirst ? undefined : cloudflare.deployService("staging", { without: 1 }).before;
      return deploy(...args);
    };
    const expectFinished = (label: string) => {
      expect(worker()?.current, label).not.toBe(before);
      expect([isRecorded(), cloudflare.workers.crons.size], label).toEqual([true, 1]);
      const applied = cloudflare.d1.databases.map(({ sqlite }) =>
        sqlite.prepare("SELECT name FROM d1_migrations").all(),
      );
      const all = DATABASE_NAMES.map((each) => readMigrations(each).map(({ name }) => ({ name })));
      expect(applied, label).toEqual(all);
    };
    const ends = new Set<string>();
    await atEveryCall(cloudflare, run, async ({ status, stderr }, label) => {
      for (const [faults, said] of SAID_AFTER) {
        if (faults.test(label)) expect(stderr, label).toMatch(said);
      }
      if (status === 0) return expectFinished(label);
      const [, claim = ""] =
        /\n(.*)\nRemove the cause, and run the same command again\.\n$/.exec(stderr) ?? [];
      const isNew = worker()?.current !== before;
      if (stderr.includes('"Apply workers.dev')) expect(isNew, label).toBe(true);
      const isOld = RegExp(
        `Nothing was changed|still serves|back at the version before, ${before}`,
      );
      if (claim.startsWith("Nothing was changed")) expect(cloudflare.changes, label).toEqual([]);
      if (/rollback failed too: ./.test(stderr)) expect(label).toContain("lost for good");
      if (/new version serves|Worker is deployed/.test(claim)) expect(isNew, label).toBe(true);
      else if (!isOld.test(claim)) {
        expect(claim, label).toContain(`To roll back: npx wrangler rollback ${before} `);
      } else if (!isFirst) expect(isNew, label).toBe(false);
      // Runs the same command again only after the first of several runs that end alike.
      const end = `${stderr} ${cloudflare.changes.join()}`.replaceAll(/[\da-f]{8}-[\da-f-]+/g, "");
      if (ends.has(end)) return;
      ends.add(end);
      expect(await deploy(...args), label).toMatchObject({ status: 0, stderr: "" });
      expectFinished(`${label} and again`);
    });
  });
}

const stepsOf = ({ stdout }: { stdout: string }, pattern = /^Would: (.*)$/gm) =>
  [...stdout.matchAll(pattern)].map(([, title]) => title);

it("a dry run changes nothing, prints all steps also without a login, and what would fail", async () => {
  setVars("production", 'BAN_MIN_STRIKES = "abc"\n');
  const first = await deploy(...STAGING, "--location", "weur", "--dry-run");
  cloudflare.deployService("staging");
  const next = await deploy(...STAGING, "--dry-run");
  for (const dry of [first, next]) expect(dry).toMatchObject({ status: 0, stderr: "" });
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
  const without = await deploy("--env", "production", "--dry-run");
  const failed = "error: a deployment would stop here: Check the vars of production\n";
  expect(without).toMatchObject({ status: 1, stderr: failed });
  const create = DATABASE_NAMES.map((each) => `Create the database store-orders-staging-${each}`);
  const steps = stepsOf(next);
  const deployed = [...steps.slice(0, 2), "Deploy the Worker", ...steps.slice(-2)];
  expect(stepsOf(first)).toEqual([...create, ...deployed]);
  const perhaps = create.map((one) => `${one.replace("staging", "production")}, if it is missing`);
  expect(stepsOf(without)).toEqual([...perhaps, ...steps]);
  const reported = /\nFailed: Invalid vars: BAN_MIN[^]*\nDry run: nothing was changed/;
  expect(without.stdout).toMatch(reported);
  expect((await deploy(...STAGING)).stderr).toContain('Cloudflare" failed: not logged in');
  cloudflare.logIn();
  expect(cloudflare.changes).toEqual([]);
  const real = await deploy(...STAGING);
  expect(stepsOf(real, /^((?!Check|Log in).*) \.\.\.$/gm)).toEqual(stepsOf(next));
});

it("asks before it creates or takes over something, and changes nothing without a terminal", async () => {
  const route = 'routes = [{ pattern = "orders.shop.example", custom_domain = true }]';
  configure(/^name = "store-orders-staging"$/m, `$&\n${route}`);
  cloudflare.d1.create(KEYS);
  const domain = "the address orders.shop.example, whatever uses it now";
  const asked = await deploy(...STAGING, "--location", "weur");
  expect(asked.stderr).toContain(`${ORDERS} in weur, the Worker ${WORKER}, ${domain}.\n`);
  cloudflare.clear();
  cloudflare.deployService("staging");
  cloudflare.workers.domains.set("orders.shop.example", "another Worker");
  const question = `^This creates ${domain}.\nThe account is Pets \\(\\w+\\).\nerror: nothing was changed, .* confirm with --yes, typed after --\n`;
  expect((await deploy(...STAGING)).stderr).toMatch(new RegExp(question));
  expect(cloudflare.changes).toEqual([]);
  cloudflare.workers.domains.set("orders.shop.example", WORKER);
  expect(await deploy(...STAGING)).toMatchObject({ status: 0 });
  expect(verify.mock.lastCall?.[0]).toMatchObject({ url: "https://orders.shop.example" });
});

it("acts on the account of wrangler.toml, or of CLOUDFLARE_ACCOUNT_ID, and otherwise lists those of the login", async () => {
  cloudflare.deployService("staging");
  vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", "");
  cloudflare.accounts.push({ id: "f00d", name: "Food" });
  expect((await deploy(...STAGING)).stderr).toMatch(
    /the login has 2 accounts, Pets \(\w{32}\), Food \(f00d\): set account_id in wrangler.toml or/,
  );
  configure(/^name = "store-orders"$/m, '$&\naccount_id = "0123456789abcdef0123456789abcdef"');
  vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", "f00d");
  const account = "\n  Account: Pets (0123456789abcdef0123456789abcdef)\n";
  const checked = { status: 0, stdout: expect.stringContaining(account), stderr: "" };
  expect(await deploy(...STAGING, "--dry-run")).toEqual(checked);
});

it.each<[string, string, number, (request: number, isSelected: boolean) => boolean]>([
  ["ignores the header that selects a version", "Try the new version", 0, () => true],
  ["serves one request of five by it", "Try the new version", 0, (request) => request === 3],
  ["still answers from some servers", "Try the version with all traffic", 1, (_, is) => !is],
])("a trial notices the version before if Cloudflare %s", async (_, title, trials, isOld) => {
  const { versions, before } = cloudflare.deployService("staging");
  let requests = 0;
  cloudflare.workers.choose = (selected) =>
    isOld((requests += 1), selected !== undefined) ? before : versions.list[0]!.id;
  const reason = `"${title}" failed.* not answered by the version [\\w-]{36}: 200 {"orders":"ok",.*\n`;
  const failed = { status: 1, stderr: expect.stringMatching(reason) };
  expect(await deploy(...STAGING)).toMatchObject(failed);
  expect(verify).toHaveBeenCalledTimes(trials);
  const back = `deploy ${WORKER}: ${before} 100 %: staging, whose trial failed`;
  expect(cloudflare.changes.at(-1)).toBe(back);
});

it("a trial that waits for the new version is ended by a signal, or by an error that no time mends", async () => {
  TRIAL_PATIENCE.maxRetryTime = 60_000;
  const { before } = cloudflare.deployService("staging");
  const late = new Error("answered late", { cause: new OtherVersionError() });
  verify.mockRejectedValueOnce(late).mockRejectedValueOnce(new Error("a key could not be made"));
  const back = `Try the new version" failed: a key could not be made\nAll traffic is back at`;
  expect((await deploy(...STAGING)).stderr).toContain(back);
  let requests = 0;
  cloudflare.workers.choose = (selected = before) => {
    requests += 1;
    if (requests === 10) interrupt();
    return requests < 100 ? before : selected;
  };
  const { stderr } = await deploy(...STAGING);
  expect(stderr).toMatch(/"Try the new version" failed: ended by SIGINT.*\nAll traffic is back at/);
  expect(requests).toBeLessThan(30);
});

const inUnion = () => setVars("staging", 'JURISDICTION = "eu"\n');
/** Leaves the account only databases, in these jurisdictions. */
const onlyIn = (...where: readonly (string | null)[]) => {
  cloudflare.clear();
  for (const [index, each] of where.entries()) cloudflare.d1.create([ORDERS, KEYS][index]!, each);
};
const divideTraffic = () => {
  const versions = [60, 40].map((percentage) => ({ version_id: "other", percentage }));
  cloudflare.workers.find(WORKER).deployments.unshift({ versions, annotations: {} });
};
const forbid = () => (cloudflare.interfere = throwing(new ApiError(403, 10000, "Forbidden")));
const failBuild = () => vi.mocked(wrangler.runWrangler).mockRejectedValueOnce(Error("no page"));
const IN_NONE =
  /-keys is in no jurisdiction, the var JURISDICTION says the jurisdiction eu, and no/;
it.each<[message: string | RegExp, cause: () => unknown, args?: readonly string[]]>([
  [IN_NONE, () => [inUnion(), onlyIn("eu", null)]],
  [/-orders is in the jurisdiction eu, the var JURISDICTION says no jur/, () => onlyIn("eu")],
  ["leave out --location", () => [inUnion(), onlyIn()], CREATE],
  [/there is no \S+-orders and \S+-keys in the account Pets .*--location REGION/, onlyIn],
  [/uses another database as KEYS than \S+-keys: check/, () => cloudflare.d1.databases.pop()],
  [`no version of ${WORKER} has all traffic`, divideTraffic],
  ["Forbidden [code: 10000] (HTTP 403): check the login", forbid],
  [`${WORKER} has no address`, () => (cloudflare.workers.find(WORKER).enabled = false)],
  ['"Check the build" failed: no page', failBuild],
])("a deployment changes nothing, and refuses: %s", async (message, cause, args = STAGING) => {
  cloudflare.deployService("staging");
  cause();
  const { status, stderr } = await deploy(...args, "--yes");
  expect(status).toBe(1);
  expect(stderr).toMatch(message);
  expect(stderr).toContain("Nothing was changed.");
  expect(cloudflare.changes).toEqual([]);
});

it("production takes a commit that was tried on staging, and contains the commit of production", async () => {
  setVars("production", 'LIST_READS = "nearest"\nJURISDICTION = "eu"\n');
  const [first, second, third] = [commit(), commit(), commit()];
  git("checkout", "--quiet", second);
  const run = (...args: string[]) => deploy("--env", "production", ...args);
  cloudflare.deployService("staging", { tag: second, message: PASSED });
  expect(await run("--yes")).toMatchObject({ status: 0, stderr: "" });
  expect(cloudflare.changes).toContain("create database store-orders-production-keys in eu");
  // Nothing moves, so it asks nothing.
  expect(await run()).toMatchObject({ status: 0, stderr: "" });
  cloudflare.workers.find("store-orders-production").list[0]!.resources.bindings.pop();
  expect((await run()).stderr).toMatch(
    /^The limiters move from no jurisdiction to the jurisdiction eu: all counts begin anew.*\nThe acc/,
  );
  // Customers use it, so a trial uses up no limit and places no order.
  expect(verify.mock.lastCall?.[0]).toMatchObject({ isReadOnly: true, isWriting: false });
  // The build of the reference page says how this environment reads lists.
  expect(wrangler.runWrangler).toHaveBeenCalledWith(expect.anything(), {
    LIST_READS: "nearest",
    CLOUDFLARE_ACCOUNT_ID: "0123456789abcdef0123456789abcdef",
  });
  const refusal = async (staging: string, production: string, message = PASSED) => {
    cloudflare.deployService("staging", { tag: staging, message });
    cloudflare.deployService("production", { tag: production });
    cloudflare.changes.length = 0;
    const { status, stderr } = await run("--yes");
    if (status !== 0) expect(cloudflare.changes).toEqual([]);
    return stderr;
  };
  expect(await refusal(second, first)).toBe("");
  expect(await refusal(second, `${second}-dirty`)).toBe("");
  expect(await refusal(first, first)).toContain("deploy the commit to staging first");
  expect(await refusal(second, first, "v1")).toContain("no commit that has passed its trial");
  for (const other of [third, ""]) {
    const contained = `production serves ${other}, which this commit does not contain`;
    expect(await refusal(second, other)).toContain(contained);
  }
  expect(await run("--skip-checks", "--yes")).toMatchObject({ status: 0 });
  writeFileSync(join(folder, "wrangler.toml"), "\n", { flag: "a" });
  expect(await refusal(`${second}-dirty`, first)).toContain("Commit everything");
});

it.each(["staging", "production"])("%s logs no query strings, and has all bindings", (env) => {
  expect(readConfig({ config: "wrangler.toml", env })).toMatchObject({
    d1_databases: [{ binding: "ORDERS" }, { binding: "KEYS" }],
    durable_objects: { bindings: [{ name: "RATE_LIMITER" }] },
    version_metadata: { binding: "VERSION" },
    analytics_engine_datasets: [{ binding: "ANALYTICS" }],
    observability: { redact_query_string: true, logs: { invocation_logs: false } },
  });
});
