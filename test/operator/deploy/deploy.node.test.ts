import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import { readMigrations } from "../../../src/operator/database/migrations.ts";
import { deployProgram } from "../../../src/operator/deploy/program.ts";
import * as verification from "../../../src/operator/verify/verify.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { failure, runInProcess } from "../in-process.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import { Lie, atEveryCall, interrupt, shortenPauses } from "./faults.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";

const runRealWrangler = wrangler.runWrangler;
const runWrangler = vi.spyOn(wrangler, "runWrangler");
// The deployed service is a fake. `trial.node.test.ts` verifies a real one.
const verify = vi.spyOn(verification, "verifyStore");

const WORKER = "store-orders-staging";
const HOST = `${WORKER}.example.workers.dev`;
const [ORDERS, KEYS] = [`${WORKER}-orders`, `${WORKER}-keys`];
const BROKEN = { promise: "HEAD", result: "broken", reason: "has a body" } as const;
const STAGING = ["--env", "staging"];
const CREATE = [...STAGING, "--location", "weur", "--yes"];
const PASSED = ", which has passed its trial";
/** The real wrangler takes seconds for each step. */
vi.setConfig({ testTimeout: 180_000 });

let cloudflare: FakeCloudflare;
let folder: string;
let patienceMs: number;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "store-orders-deploy-test-"));
  copyFileSync("wrangler.toml", join(folder, "wrangler.toml"));
  patienceMs = 0;
  cloudflare = new FakeCloudflare();
  await cloudflare.start();
  runWrangler.mockImplementation(runFakeWrangler);
  verify.mockResolvedValue([]);
});
afterEach(() => {
  vi.resetAllMocks();
  vi.unstubAllGlobals();
  cloudflare.stop();
  rmSync(folder, { recursive: true });
});

const deploy = (...args: readonly string[]) =>
  runInProcess(deployProgram({ folder, patienceMs }), args);

/** Changes `wrangler.toml`. */
function configure(part: RegExp, other: string): void {
  const text = readFileSync("wrangler.toml", "utf8").replace(part, other);
  writeFileSync(join(folder, "wrangler.toml"), text);
}

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
  return git("rev-parse", "HEAD");
}

const versions = () => cloudflare.workers.find(WORKER);

it("the real wrangler rolls out first where it is told, then tries each version before and after traffic", async () => {
  // `--dry-run` builds for long, and sends nothing to the account.
  runWrangler.mockImplementation((args, env) =>
    args.includes("--dry-run") ? runFakeWrangler(args) : runRealWrangler(args, env),
  );
  const tried: object[] = [];
  verify.mockImplementation(async ({ signal, ...options }) => {
    expect(signal?.aborted).toBe(false);
    tried.push({ ...options, current: versions().current });
    return [];
  });
  const trialOf = (version: string) => ({
    url: `https://${HOST}`,
    headers: { "Cloudflare-Workers-Version-Overrides": `${WORKER}="${version}"` },
    version,
    store: { env: "staging" },
    isReadOnly: false,
    isWriting: true,
    triedCredentials: new Set(),
  });
  const commitId = commit();
  const first = await deploy(...CREATE);
  expect(first).toMatchObject({ status: 0, stderr: "" });
  const before = versions().current ?? "";
  const migrate = DATABASE_NAMES.flatMap((database) => {
    const name = `${WORKER}-${database}`;
    const applied = readMigrations(database).map((each) => `migrate ${name}: ${each.name}`);
    return [`write to ${name}`, ...applied];
  });
  expect(cloudflare.changes.splice(0)).toEqual([
    `create database ${ORDERS} in weur`,
    `create database ${KEYS} in weur`,
    ...migrate,
    `deploy ${WORKER}`,
    // Deploys the same version again, to record that the trial succeeded.
    `deploy ${WORKER}: ${before} 100 %`,
  ]);
  expect(first.stdout).toContain(`  https://${HOST}\n`);
  const { metadata, assets } = cloudflare.workers.uploaded;
  expect(metadata).toMatchObject({
    bindings: expect.arrayContaining([
      { name: "ORDERS", type: "d1", id: cloudflare.d1.find(ORDERS).uuid },
      { name: "KEYS", type: "d1", id: cloudflare.d1.find(KEYS).uuid },
    ]),
    migrations: { new_tag: "v1" },
    assets: { config: { run_worker_first: ["/v1/*", "/healthz"] } },
  });
  expect(assets.manifest).toMatchObject({
    "/openapi.json": { size: Buffer.byteLength(openApiDocument()) },
    "/index.html": {},
  });
  expect(cloudflare.workers.crons.get(WORKER)).toEqual([{ cron: "23 * * * *" }]);
  expect(versions().list).toMatchObject([{ annotations: { "workers/tag": commitId } }]);

  // Without git, there is no tag, not the text "undefined".
  rmSync(join(folder, ".git"), { recursive: true });
  const next = await deploy(...STAGING);
  expect(next).toMatchObject({ status: 0, stderr: "" });
  const version = versions().current ?? "";
  expect(version).not.toBe(before);
  expect(cloudflare.changes).toEqual([
    `write to ${ORDERS}`,
    `write to ${KEYS}`,
    `upload ${WORKER}`,
    `deploy ${WORKER}: ${before} 100 %, ${version} 0 %`,
    `deploy ${WORKER}: ${version} 100 %`,
    `deploy ${WORKER}: ${version} 100 %`,
  ]);
  expect(tried).toEqual([
    { ...trialOf(before), current: before },
    { ...trialOf(version), current: before },
    { ...trialOf(version), current: version },
  ]);
  expect(JSON.stringify(versions().list)).not.toContain("undefined");
  expect(next.stdout).toContain(`npx wrangler rollback ${before} --env staging\n`);
});

/** The claims about the account in error messages, and whether a new version then serves. */
const CLAIMS: readonly (readonly [claim: string, isNew: boolean])[] = [
  ["Nothing was changed.", false],
  ["what was deployed still serves", false],
  ["All traffic is back", false],
  ["The new version serves", true],
  ["The Worker is deployed.", true],
];

describe.each([
  ["a deployment", STAGING, false],
  ["a first roll-out", CREATE, true],
])("whatever happens at any step of %s", (_, args, isFirst) => {
  let before: string | undefined;
  /** The number of trials that began although the account already recorded a passed trial. */
  let earlyRecords: number;
  const current = () => cloudflare.workers.scripts.get(WORKER)?.current;
  const isRecorded = () =>
    versions().deployments[0]?.annotations["workers/message"]?.endsWith(PASSED) === true;

  beforeEach(() => {
    shortenPauses();
    // Without git, which takes long to start.
    vi.stubEnv("PATH", "");
    verify.mockImplementation(async ({ signal }) => {
      earlyRecords += Number(isRecorded());
      // Injects the faults into trials too: each trial makes an API call.
      const answer = await cloudflare.call("GET /accounts").catch((error) => {
        if (!(error instanceof Lie)) throw error;
      });
      signal?.throwIfAborted();
      return answer ? [] : [BROKEN];
    });
  });

  /** Begins again with an account that has no service, or one that lacks migrations. */
  function reset(): void {
    cloudflare.workers.scripts.clear();
    cloudflare.workers.crons.clear();
    cloudflare.d1.databases.length = 0;
    cloudflare.changes.length = 0;
    earlyRecords = 0;
    before = isFirst ? undefined : cloudflare.deployService("staging", { without: 1 }).before;
  }

  async function expectFinishedAgain(label: string): Promise<void> {
    const again = await deploy(...args);
    expect(again, label).toMatchObject({ status: 0, stderr: "" });
    expectFinished(label);
  }

  function expectFinished(label: string): void {
    expect(current(), label).not.toBe(before);
    expect([isRecorded(), cloudflare.workers.crons.size], label).toEqual([true, 1]);
    expect(cloudflare.d1.databases, label).toHaveLength(2);
    for (const database of DATABASE_NAMES) {
      const { sqlite } = cloudflare.d1.find(`${WORKER}-${database}`);
      const applied = sqlite.prepare("SELECT name FROM d1_migrations").all();
      expect(applied, label).toEqual(readMigrations(database).map(({ name }) => ({ name })));
    }
  }

  it("the same command finishes it after a full disk", async () => {
    let isFull = true;
    for (let room = 0; isFull; room += 1) {
      reset();
      let commands = 0;
      runWrangler.mockImplementation(async (command) => {
        isFull = commands++ >= room;
        if (isFull) throw new Error("ENOSPC: no space left on device, write");
        return runFakeWrangler(command);
      });
      const { status, stderr } = await deploy(...args);
      expect([status, stderr.includes("failed: ENOSPC")]).toEqual([Number(isFull), isFull]);
      runWrangler.mockImplementation(runFakeWrangler);
      await expectFinishedAgain(`room for ${room}`);
    }
  });

  it("it ends finished or gone back, or says what stands, and the same command finishes it", async () => {
    const ends = new Set<string>();
    const run = () => {
      reset();
      return deploy(...args);
    };
    await atEveryCall(cloudflare, run, async ({ status, stderr }, label) => {
      expect(earlyRecords, label).toBe(0);
      // The first call belongs to a check, so no step may begin after the signal.
      if (label.startsWith("a signal before it, call 0,")) {
        expect(stderr).toMatch(/ended by SIG\w+ before the deployment was complete\n/);
        expect(cloudflare.changes).toEqual([]);
      }
      if (!isFirst && /lies.* GET .accounts:/.test(label)) {
        expect(stderr).toContain(
          `failed: https://${HOST} breaks its promises:\nHEAD: has a body\nAll traffic is back`,
        );
      }
      // Traffic is divided in several attempts.
      if (/lost (?:before|after) it.* POST .*deployments:/.test(label))
        expect(status, label).toBe(0);
      if (status === 0) return expectFinished(label);
      expect(stderr, label).toMatch(
        /^error: ".*" failed: .[^]*Remove the cause, and run the same command again\.\n$/,
      );
      const rollback = `The rollback failed too: .+\nTo roll back: npx wrangler rollback ${before} `;
      const claims = CLAIMS.filter(([claim]) => stderr.includes(claim));
      if (claims.length === 0) expect(stderr, label).toMatch(new RegExp(rollback));
      for (const [claim, isNew] of claims) {
        // A first roll-out may be deployed although the answer to it was lost.
        const isTrue = (isFirst && !isNew) || (current() !== before) === isNew;
        expect(isTrue, `${claim} ${label}`).toBe(true);
        if (claim.startsWith("Nothing")) expect(cloudflare.changes, label).toEqual([]);
      }
      // Runs the same command again only after the first of several runs that end alike.
      const end = `${stderr} ${cloudflare.changes.join()}`.replaceAll(/[\da-f]{8}-[\da-f-]+/g, "");
      if (ends.has(end)) return;
      ends.add(end);
      await expectFinishedAgain(`${label} and again`);
    });
  });
});

const stepsOf = ({ stdout }: { stdout: string }, pattern: RegExp) =>
  [...stdout.matchAll(pattern)].map(([, title]) => title);
const would = (outcome: { stdout: string }) => stepsOf(outcome, /^Would: (.*)$/gm);

it("a dry run prints the steps, also without a login, and what only an account can check", async () => {
  const first = await deploy(...CREATE, "--dry-run");
  cloudflare.deployService("staging", { without: 1 });
  const next = await deploy(...STAGING, "--dry-run");
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
  const without = await deploy("--env", "production", "--dry-run");
  expect(without.stdout).toContain(
    "Not checked without a login: Check the Worker and its databases\n" +
      "Not checked without a login: Check that staging serves this commit\nWould: ",
  );
  for (const dry of [first, next, without]) expect(dry).toMatchObject({ status: 0, stderr: "" });
  expect(cloudflare.changes).toEqual([]);
  expect(would(first)).toContain("Deploy the Worker");
  expect(would(without)).toEqual([
    "Create the database store-orders-production-orders, if it is missing",
    "Create the database store-orders-production-keys, if it is missing",
    ...would(next),
  ]);
  expect((await deploy(...STAGING)).stderr).toContain('Cloudflare" failed: not logged in');
  vi.stubEnv("CLOUDFLARE_API_TOKEN", cloudflare.environment["CLOUDFLARE_API_TOKEN"]);
  const real = await deploy(...STAGING);
  expect(stepsOf(real, /^((?!Check|Log in).*) \.\.\.$/gm)).toEqual(would(next));
  expect(would(next)).toHaveLength(8);
});

it("a dry run ends with a signal", async () => {
  cloudflare.interfere = () => interrupt();
  const args = ["--env", "production", "--location", "weur", "--dry-run"];
  const { status, stdout, stderr } = await deploy(...args);
  expect([status, would({ stdout })]).toEqual([1, []]);
  expect(stderr).toContain("ended by SIGINT before the deployment was complete");
});

it("a dry run prints all steps, although checks fail, and fails at the end", async () => {
  configure(/REQUEST_LOG = "all"/g, '$&\nBAN_MIN_STRIKES = "abc"');
  cloudflare.deployService("production");
  const dry = await deploy("--env", "production", "--dry-run");
  expect(dry.stdout).toMatch(
    /^Check the vars of production \.\.\.\nFailed: .*must be a whole number/,
  );
  expect(would(dry)).toContain("Send all traffic to the new version");
  expect(dry).toEqual({
    status: 1,
    stdout: expect.stringMatching(/Dry run: nothing was changed\.\n$/),
    stderr:
      "error: a deployment would stop here: Check the vars of production; Check that staging serves this commit\n",
  });
  expect(cloudflare.changes).toEqual([]);
});

it("asks before it creates or takes over something, and changes nothing without a terminal", async () => {
  const route = 'routes = [{ pattern = "orders.shop.example", custom_domain = true }]';
  configure(/^name = "store-orders-staging"$/m, `$&\n${route}`);
  cloudflare.d1.create(KEYS);
  const asked = await deploy(...STAGING, "--location", "weur");
  const domain = "the address orders.shop.example, whatever uses it now";
  const refused = "nothing was changed, because there is no terminal to ask at: confirm with --yes";
  expect(asked.stderr).toBe(
    `This creates the database ${ORDERS} in weur, the Worker ${WORKER}, ${domain}.\nerror: ${refused}\n`,
  );
  cloudflare.d1.databases.length = 0;
  cloudflare.deployService("staging");
  cloudflare.workers.domains.set("orders.shop.example", "another Worker");
  expect((await deploy(...STAGING)).stderr).toBe(`This creates ${domain}.\nerror: ${refused}\n`);
  expect(cloudflare.changes).toEqual([]);
  cloudflare.workers.domains.set("orders.shop.example", WORKER);
  expect(await deploy(...STAGING)).toMatchObject({ status: 0 });
  expect(verify).toHaveBeenCalledWith(
    expect.objectContaining({ url: "https://orders.shop.example" }),
  );
});

describe("a trial", () => {
  it.each([
    ["ignores the header that selects a version", "Try the new version", 0],
    ["still answers from some servers", "Try the version with all traffic", 1],
  ])("does not mistake the version before if Cloudflare %s", async (_, title, trials) => {
    const { before } = cloudflare.deployService("staging");
    cloudflare.workers.choose = (selected) => (trials > 0 && selected) || before;
    const { status, stderr } = await deploy(...STAGING);
    expect(status).toBe(1);
    expect(stderr).toMatch(
      new RegExp(`"${title}" failed.* not answered by the version [\\w-]{36}\n`),
    );
    expect(verify).toHaveBeenCalledTimes(trials);
    expect(cloudflare.changes.at(-1)).toBe(`deploy ${WORKER}: ${before} 100 %`);
  });

  it("does not begin again after an error of a healthy version", async () => {
    cloudflare.deployService("staging");
    verify.mockRejectedValueOnce(new Error("a key could not be made"));
    patienceMs = 60_000;
    expect(await deploy(...STAGING)).toMatchObject({ status: 1 });
    expect(verify).toHaveBeenCalledOnce();
  });
});

describe("a deployment changes nothing, and refuses", () => {
  const d1 = () => cloudflare.d1;
  const remove = (from: number) => void d1().databases.splice(from);
  const removeAll = () => [remove(0), cloudflare.workers.scripts.clear()];
  const percentages = (...shares: number[]) => {
    const shared = shares.map((percentage) => ({ version_id: "other", percentage }));
    versions().deployments.unshift({ versions: shared, annotations: {} });
  };

  it.each<[message: string | RegExp, args: readonly string[], cause: () => unknown]>([
    [
      /-keys exists already, outside the jurisdiction eu, and no database can move/,
      ["--jurisdiction", "eu"],
      () => [removeAll(), d1().create(ORDERS, "eu"), d1().create(KEYS)],
    ],
    [`there is no ${ORDERS} and ${KEYS}: add --location REGION`, ["--yes"], removeAll],
    [/uses another database as KEYS than \S+-keys: check/, ["--location", "weur"], () => remove(1)],
    [/ as ORDERS than \S+-orders: check/, [], () => [remove(0), d1().create(ORDERS)]],
    [`no version of ${WORKER} has all traffic`, [], () => percentages(60, 40)],
    [
      /has no address, .* run: npx wrangler triggers deploy --env staging/,
      [],
      () => (cloudflare.workers.isOnWorkersDev = false),
    ],
    [
      /Invalid request headers \[code: 6003\] \(HTTP 400\): check the login .*npx wrangler login/,
      [],
      () => vi.stubEnv("CLOUDFLARE_API_TOKEN", "nonsense"),
    ],
    [
      /no answer: connect ECONNREFUSED/,
      [],
      () => vi.stubEnv("CLOUDFLARE_API_BASE_URL", "http://127.0.0.1:65535"),
    ],
  ])("%s", async (message, args, cause) => {
    cloudflare.deployService("staging");
    cause();
    const { status, stderr } = await deploy(...STAGING, ...args);
    expect(status).toBe(1);
    expect(stderr).toMatch(message);
    expect(stderr).toContain("Nothing was changed.");
    expect(cloudflare.changes).toEqual([]);
  });

  it.each([
    [[], "required option '--env <environment>' not specified"],
    [[...STAGING, "--location", "mars"], "Allowed choices"],
    [[...CREATE, "--jurisdiction", "eu"], "cannot be used with"],
  ])("the options %j", async (args, message) => {
    expect(await deploy(...args)).toEqual(failure(message, 2));
  });

  it("settings without the name of a database", async () => {
    configure(/database_name = "\S+staging-keys"/, "");
    expect(await deploy(...STAGING)).toEqual(
      failure("error: [env.staging] has no database_name for the binding KEYS\n"),
    );
  });
});

it("production takes a commit that was tried on staging, and contains the commit of production", async () => {
  const [first, second, third] = [commit(), commit(), commit()];
  git("checkout", "--quiet", second);
  const refusal = async (staging: string, production: string, message = PASSED) => {
    cloudflare.deployService("staging", { tag: staging, message });
    cloudflare.deployService("production", { tag: production });
    cloudflare.changes.length = 0;
    const { status, stderr } = await deploy("--env", "production");
    if (status !== 0) expect(cloudflare.changes).toEqual([]);
    return stderr;
  };
  expect(await refusal(second, first)).toBe("");
  expect(await refusal(second, `${second}-dirty`)).toBe("");
  expect(await refusal(first, first)).toContain("deploy the commit to staging first");
  expect(await refusal(second, first, "v1")).toContain("no commit that has passed its trial");
  for (const other of [third, "0".repeat(40), ""]) {
    expect(await refusal(second, other)).toContain("which this commit does not contain");
  }
  writeFileSync(join(folder, "wrangler.toml"), "\n", { flag: "a" });
  expect(await refusal(`${second}-dirty`, first)).toContain("Commit everything");
});

it("the same command deploys each environment first and again, and tells the build of LIST_READS", async () => {
  // Staging has the default.
  configure(/(env.production.vars]\n)/, `$1LIST_READS = "nearest"\n`);
  commit();
  const production = ["--env", "production", "--jurisdiction", "eu", "--yes"];
  for (const args of [CREATE, CREATE, production, production]) {
    expect(await deploy(...args)).toMatchObject({ status: 0, stderr: "" });
  }
  const trials = verify.mock.calls.filter(([{ url }]) => !url.includes(WORKER));
  expect(trials).toHaveLength(3);
  for (const [trial] of trials) expect(trial).toMatchObject({ isReadOnly: true, isWriting: false });
  for (const name of [WORKER, "store-orders-production"]) {
    expect(cloudflare.workers.find(name).list).toHaveLength(2);
  }
  expect(cloudflare.changes).toContain("create database store-orders-production-keys in eu");
  const reads = runWrangler.mock.calls.flatMap(([, env]) => env?.["LIST_READS"] ?? []);
  expect(reads).toEqual(["primary", "primary", "nearest", "nearest"]);
});
