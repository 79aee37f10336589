import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import { deployProgram } from "../../../src/operator/deploy/program.ts";
import * as verification from "../../../src/operator/verify/verify.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { failure, runInProcess } from "../in-process.ts";
import { FakeCloudflare, Lie } from "./fake-cloudflare.ts";
import { atEveryCall, shortenPauses } from "./faults.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import type { ApiCall } from "./route.ts";
import type { Outcome } from "./run-command.ts";

const runRealWrangler = wrangler.runWrangler;
const runWrangler = vi.spyOn(wrangler, "runWrangler");
// The deployed service is a fake. `trial.node.test.ts` verifies a real one.
const verify = vi.spyOn(verification, "verifyStore");

const WORKER = "store-orders-staging";
const HOST = `${WORKER}.example.workers.dev`;
const ORDERS = `${WORKER}-orders`;
const KEYS = `${WORKER}-keys`;
const KEPT: verification.Verification = {
  isKept: true,
  promises: [{ promise: "HEAD", result: "kept" }],
};
const NOT_KEPT: verification.Verification = {
  isKept: false,
  promises: [{ promise: "HEAD", result: "broken", reason: "has a body", requestId: "r-1" }],
};
const STAGING = ["--env", "staging"];
const CREATE = [...STAGING, "--location", "weur", "--yes"];
const PASSED = "v1, which has passed its trial";
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
  verify.mockResolvedValue(KEPT);
});
afterEach(async () => {
  vi.resetAllMocks();
  vi.unstubAllGlobals();
  await cloudflare.stop();
  rmSync(folder, { recursive: true });
});

function deploy(...args: readonly string[]): Promise<Outcome> {
  return runInProcess(deployProgram({ folder, patienceMs }), args);
}

/** Changes `wrangler.toml`. */
function configure(part: RegExp, other: string): void {
  const text = readFileSync("wrangler.toml", "utf8").replace(part, other);
  writeFileSync(join(folder, "wrangler.toml"), text);
}

const ROUTE = 'routes = [{ pattern = "orders.shop.example", custom_domain = true }]';
const useDomain = () => configure(/^name = "store-orders-staging"$/m, `$&\n${ROUTE}`);

/** Uses the real wrangler, but not for `--dry-run`, which sends nothing to the account. */
function useRealWrangler(): void {
  runWrangler.mockImplementation((args, env) =>
    (args.includes("--dry-run") ? runFakeWrangler : runRealWrangler)(args, env),
  );
}

/** Runs git without the machine's settings. */
function git(...args: string[]): string {
  return execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.com", ...args], {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" },
  }).trim();
}

function commit(): string {
  git("init", "--quiet");
  git("add", "--all");
  git("commit", "--quiet", "--message=All", "--allow-empty");
  return git("rev-parse", "HEAD");
}

/** Returns the changes that migrations cause. The `write` creates the table of migrations. */
const migrate = (database: string, count = Number.POSITIVE_INFINITY) => [
  `write to ${database}`,
  ...cloudflare.d1
    .find(database)
    .migrations.slice(-count)
    .map(({ name }) => `migrate ${database}: ${name}`),
];

const titlesIn = ({ stdout }: Outcome, pattern: RegExp) =>
  [...stdout.matchAll(pattern)].map(([, title]) => title);

it("a first roll-out creates the databases where it is told, migrates them, and deploys", async () => {
  useRealWrangler();
  const commitId = commit();
  const { status, stdout, stderr } = await deploy(...CREATE);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const { versions, bindings } = cloudflare.workers.find(WORKER);
  expect(cloudflare.changes).toEqual([
    `create database ${ORDERS} in weur`,
    `create database ${KEYS} in weur`,
    ...migrate(ORDERS),
    ...migrate(KEYS),
    `deploy ${WORKER}`,
    // Deploys the same version again, to record that the trial succeeded.
    `deploy ${WORKER}: ${versions.current} 100 %`,
  ]);
  expect(stdout).toContain(`Deployed staging: https://${HOST}`);
  for (const name of DATABASE_NAMES) {
    const id = cloudflare.d1.find(`${WORKER}-${name}`).uuid;
    expect(bindings).toContainEqual({ name: BINDINGS[name], type: "d1", id });
  }
  const { metadata, assets } = cloudflare.workers.uploaded;
  expect(metadata).toMatchObject({
    migrations: { new_tag: "v1" },
    assets: { config: { run_worker_first: ["/v1/*", "/healthz"] } },
  });
  expect(assets.manifest).toMatchObject({
    "/openapi.json": { size: Buffer.byteLength(openApiDocument()) },
    "/index.html": {},
  });
  expect(cloudflare.workers.crons.get(WORKER)).toEqual([{ cron: "23 * * * *" }]);
  expect(versions.list).toMatchObject([{ annotations: { "workers/tag": commitId } }]);
});

it("a deployment tries the new version before and after it gets traffic", async () => {
  useRealWrangler();
  const { versions, before } = cloudflare.deployService("staging", { without: 1 });
  const tried: object[] = [];
  verify.mockImplementation(async ({ signal, useDatabase, ...options }) => {
    expect(signal?.aborted).toBe(false);
    // Throws if the trial opens a database of production: only staging has databases here.
    await useDatabase("keys", (database) => database.orm.run(sql`SELECT id FROM api_keys`));
    tried.push({ ...options, current: versions.current });
    return KEPT;
  });
  const { status, stdout, stderr } = await deploy(...STAGING);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const version = versions.current ?? "";
  expect(version).not.toBe(before);
  expect(cloudflare.changes).toEqual([
    ...migrate(ORDERS, 1),
    ...migrate(KEYS, 1),
    `upload ${WORKER}`,
    `deploy ${WORKER}: ${before} 100 %, ${version} 0 %`,
    `deploy ${WORKER}: ${version} 100 %`,
    `deploy ${WORKER}: ${version} 100 %`,
  ]);
  const trial = {
    url: `https://${HOST}`,
    headers: { "Cloudflare-Workers-Version-Overrides": `${WORKER}="${version}"` },
    version,
    isReadOnly: false,
    isWriting: true,
    triedCredentials: new Set(),
  };
  expect(tried).toEqual([
    { ...trial, current: before },
    { ...trial, current: version },
  ]);
  // Without git, there is no tag, not the text "undefined".
  expect(JSON.stringify(versions.list)).not.toContain("undefined");
  expect(stdout).toContain(`Deployed staging: https://${HOST}\n`);
  expect(stdout).toContain(`npx wrangler rollback ${before} --env staging`);
});

describe("whatever happens at any step", () => {
  beforeEach(() => {
    shortenPauses();
    // Without git, which takes long to start.
    vi.stubEnv("PATH", "");
  });

  const isRecorded = () => {
    const [last] = cloudflare.workers.find(WORKER).versions.deployments;
    return last?.annotations?.["workers/message"]?.endsWith("has passed its trial") === true;
  };
  /** The number of trials that began although the account already recorded a passed trial. */
  let earlyRecords = 0;

  /** Injects the faults into trials too: each trial counts as one API call of the fake account. */
  function disturbTrials(): void {
    const ask = (path: string) =>
      cloudflare.interfere({ method: "try", path, body: Buffer.from("") } as ApiCall);
    verify.mockImplementation(async ({ signal }) => {
      earlyRecords += Number(isRecorded());
      try {
        ask("promises")?.();
      } catch (error) {
        if (error instanceof Lie) return NOT_KEPT;
        throw error;
      }
      signal?.throwIfAborted();
      return KEPT;
    });
    let requests = 0;
    cloudflare.workers.answer = () => {
      requests += 1;
      // A trial begins with five parallel requests. Only the first one counts as an API call.
      if (requests % 5 !== 1) return 200;
      try {
        ask("health")?.();
        return 200;
      } catch {
        return 500;
      }
    };
  }

  const current = () => cloudflare.workers.scripts.get(WORKER)?.versions.current;

  function isFinished(before: string | undefined): boolean {
    const isMigrated = [ORDERS, KEYS].every((database) => {
      const { sqlite, migrations } = cloudflare.d1.find(database);
      return sqlite.prepare("SELECT name FROM d1_migrations").all().length === migrations.length;
    });
    return current() !== before && isRecorded() && isMigrated && cloudflare.workers.crons.size > 0;
  }

  /** The claims about the account in error messages, each with a check that the claim is true. */
  const CLAIMS: readonly [RegExp, (before: string | undefined, rollback?: string) => boolean][] = [
    [/Nothing was changed\./, (before) => current() === before && cloudflare.changes.length === 0],
    [/what was deployed still serves/, (before) => before === undefined || current() === before],
    [/All traffic is back/, (before) => current() === before],
    [
      /The rollback failed too: .+\nTo roll back: npx wrangler rollback (\S+) --env staging\n/,
      (before, rollback) => rollback === before,
    ],
    [/The new version serves/, (before) => current() !== before && current() !== undefined],
    [/The Worker is deployed\./, () => current() !== undefined],
  ];

  const COMMANDS = [
    ["a deployment", STAGING, false],
    ["a first roll-out", CREATE, true],
  ] as const;

  it.each(COMMANDS)(
    "%s on a full disk is finished by the same command",
    async (_, args, isFirst) => {
      let isFull = true;
      for (let room = 0; isFull; room += 1) {
        cloudflare.clear();
        const { before } = isFirst ? {} : cloudflare.deployService("staging", { without: 1 });
        let commands = 0;
        runWrangler.mockImplementation(async (...command) => {
          isFull = commands++ >= room;
          if (isFull) throw new Error("ENOSPC: no space left on device, write");
          return runFakeWrangler(...command);
        });
        const { status, stderr } = await deploy(...args);
        expect([status, stderr.includes("failed: ENOSPC")]).toEqual([Number(isFull), isFull]);
        runWrangler.mockImplementation(runFakeWrangler);
        expect(await deploy(...args)).toMatchObject({ status: 0, stderr: "" });
        expect(isFinished(before)).toBe(true);
      }
    },
  );

  it.each(COMMANDS)(
    "%s ends finished or gone back, or says what stands and how to go on",
    async (_, args, isFirst) => {
      let before: string | undefined;
      const ends = new Set<string>();
      const run = () => {
        cloudflare.clear();
        earlyRecords = 0;
        disturbTrials();
        if (!isFirst) ({ before } = cloudflare.deployService("staging", { without: 1 }));
        return deploy(...args);
      };
      await atEveryCall(cloudflare, run, async ({ status, stderr }, label) => {
        expect(earlyRecords, label).toBe(0);
        // The first call belongs to a check, so no step may begin after the signal.
        if (label.startsWith("a signal before it, call 0,")) {
          expect(stderr).toMatch(/ended by SIG\w+ before the deployment was complete\n/);
          expect(cloudflare.changes).toEqual([]);
        }
        if (!isFirst && /lies.* try promises:/.test(label)) {
          expect(stderr).toContain(
            `failed: https://${HOST} breaks its promises:\nHEAD: has a body (request r-1)\nAll traffic is back`,
          );
        }
        if (status === 0) return expect(isFinished(before), label).toBe(true);
        expect(stderr, label).toMatch(/^error: ".*" failed: ./);
        expect(stderr, label).toMatch(/Remove the cause, and run the same command again\.\n$/);
        const claims = CLAIMS.flatMap(([claim, isTrue]) => {
          const said = claim.exec(stderr);
          return said === null ? [] : [{ claim, isTrue: isTrue(before, said[1]) }];
        });
        expect(claims, label).not.toEqual([]);
        for (const { claim, isTrue } of claims) expect(isTrue, `${claim} ${label}`).toBe(true);
        // Runs the same command again only after the first of several runs that end alike.
        const end = `${stderr} ${cloudflare.changes.join()}`.replaceAll(
          /[\da-f]{8}-[\da-f-]+/g,
          "",
        );
        if (ends.has(end)) return;
        ends.add(end);
        disturbTrials();
        const again = await deploy(...args);
        expect(again, `${label}\n${again.stderr}`).toMatchObject({ status: 0 });
        expect(isFinished(before), label).toBe(true);
        expect(cloudflare.d1.databases, label).toHaveLength(2);
      });
    },
  );
});

it("a dry run prints the steps, also without a login, and what only an account can check", async () => {
  const would = (dry: Outcome) => titlesIn(dry, /^Would: (.*)$/gm);
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
  expect(would(without)).toEqual([
    "Create the database store-orders-production-orders, if it is missing",
    "Create the database store-orders-production-keys, if it is missing",
    ...would(next),
  ]);
  expect((await deploy(...STAGING)).stderr).toContain('Cloudflare" failed: not logged in');
  vi.stubEnv("CLOUDFLARE_API_TOKEN", cloudflare.environment["CLOUDFLARE_API_TOKEN"]);
  const real = await deploy(...STAGING);
  expect(titlesIn(real, /^((?!Check|Log in).*) \.\.\.$/gm)).toEqual(would(next));
  expect(would(next)).toHaveLength(8);
});

it("a dry run prints all steps, although checks fail, and fails at the end", async () => {
  configure(/REQUEST_LOG = "all"/g, '$&\nBAN_MIN_STRIKES = "abc"');
  cloudflare.deployService("production");
  const { status, stdout, stderr } = await deploy("--env", "production", "--dry-run");
  expect(status).toBe(1);
  expect(stdout).toMatch(/^Check the vars of production \.\.\.\nFailed: .*must be a whole number/);
  expect(stdout).toContain("Would: Send all traffic to the new version\n");
  expect(stdout).toContain("Dry run: nothing was changed.\n");
  expect(stderr).toBe(
    "error: a deployment would stop here: Check the vars of production; Check that staging serves this commit\n",
  );
  expect(cloudflare.changes).toEqual([]);
});

it("asks before it creates or takes over something, and changes nothing without a terminal", async () => {
  useDomain();
  cloudflare.d1.create(KEYS);
  const asked = await deploy(...STAGING, "--location", "weur");
  const domain = "the address orders.shop.example, whatever uses it now";
  const refused = "nothing was changed, because there is no terminal to ask at: confirm with --yes";
  expect(asked.stderr).toBe(
    `This creates the database ${ORDERS} near weur, the Worker ${WORKER} on the existing database ${KEYS}, ${domain}.\nerror: ${refused}\n`,
  );
  cloudflare.d1.databases.length = 0;
  cloudflare.deployService("staging");
  cloudflare.workers.domains.set("orders.shop.example", "another Worker");
  expect((await deploy(...STAGING)).stderr).toBe(`This creates ${domain}.\nerror: ${refused}\n`);
  expect(cloudflare.changes).toEqual([]);
  cloudflare.workers.domains.set("orders.shop.example", WORKER);
  const { status, stdout } = await deploy(...STAGING);
  expect(status).toBe(0);
  expect(stdout).toContain(`Deployed staging: https://orders.shop.example, https://${HOST}`);
});

describe("a trial", () => {
  it.each([
    ["ignores the header that selects a version", "Try the new version", true, 0],
    // Late: some of Cloudflare's servers still run the previous version.
    ["is late", "Try the version with all traffic", false, 1],
  ])("does not mistake the version before if Cloudflare %s", async (_, title, ignores, trials) => {
    const { before } = cloudflare.deployService("staging");
    cloudflare.workers.ignoresOverrides = ignores;
    cloudflare.workers.lateVersion = before;
    const { status, stderr } = await deploy(...STAGING);
    expect(status).toBe(1);
    expect(stderr).toContain(`"${title}" failed`);
    expect(stderr).toMatch(/does not answer from version [\w-]{36}/);
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

it.each(["nearest", "primary"])("the build is told of LIST_READS = %s", async (reads) => {
  if (reads !== "primary") configure(/REQUEST_LOG = "all"/g, `$&\nLIST_READS = "${reads}"`);
  cloudflare.deployService("staging");
  expect(await deploy(...STAGING)).toMatchObject({ status: 0 });
  const env = expect.objectContaining({ LIST_READS: reads });
  expect(runWrangler).toHaveBeenCalledWith(expect.arrayContaining(["upload"]), env);
});

/** The error message of each refusal, the arguments, and a function that causes the refusal. */
const REFUSALS: readonly (readonly [string | RegExp, readonly string[], () => unknown])[] = [
  [
    `the database ${KEYS} exists already, outside the jurisdiction eu, and no database can move`,
    ["--jurisdiction", "eu"],
    () => [cloudflare.clear(), cloudflare.d1.create(ORDERS, "eu"), cloudflare.d1.create(KEYS)],
  ],
  [
    `there is no ${ORDERS} and ${KEYS}: add --location REGION or --jurisdiction NAME`,
    ["--yes"],
    () => cloudflare.clear(),
  ],
  [
    /uses the database [\w-]{36} as KEYS, but \S+-keys is missing/,
    ["--location", "weur"],
    () => cloudflare.d1.databases.pop(),
  ],
  [
    /uses the database [\w-]{36} as ORDERS, but \S+-orders is [\w-]{36}/,
    [],
    () => cloudflare.d1.databases.splice(0, 1) && cloudflare.d1.create(ORDERS),
  ],
  [
    `no version of ${WORKER} has all traffic`,
    [],
    () => {
      const { versions } = cloudflare.workers.find(WORKER);
      const shares = [versions.current ?? "", versions.upload("other")];
      versions.divide({
        versions: shares.map((version_id, index) => ({ version_id, percentage: 60 - 20 * index })),
      });
    },
  ],
  ["Authentication error", [], () => vi.stubEnv("CLOUDFLARE_API_TOKEN", "wrong")],
];

describe("a deployment changes nothing, and refuses", () => {
  it.each(REFUSALS)("%s", async (message, args, cause) => {
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
    [["--env", "staging", "--location", "mars"], "Allowed choices"],
    [["--env", "staging", "--location", "weur", "--jurisdiction", "eu"], "cannot be used with"],
  ])("the options %j", async (args, message) => {
    expect(await deploy(...args)).toEqual(failure(message, 2));
  });

  it("settings without the name of a database", async () => {
    configure(/database_name = "\S+staging-keys"/, "");
    expect(await deploy(...STAGING)).toMatchObject({
      stderr: "error: [env.staging] has no database_name for the binding KEYS\n",
    });
  });
});

it("says how to give a Worker an address, without which no version can be tried", async () => {
  const { before } = cloudflare.deployService("staging");
  cloudflare.workers.offWorkersDev.add(WORKER);
  expect((await deploy(...STAGING)).stderr).toMatch(
    /then run: npx wrangler triggers deploy --env staging\nAll traffic is back/,
  );
  expect(cloudflare.workers.find(WORKER).versions.current).toBe(before);
});

it("production takes a commit that was tried on staging, and contains the commit of production", async () => {
  const [first, second, third] = [commit(), commit(), commit()];
  git("checkout", "--quiet", second);
  const refusal = async (staging: string, production?: string, message = PASSED) => {
    cloudflare.deployService("staging", { commit: staging, message });
    cloudflare.deployService("production", { commit: production });
    cloudflare.changes.length = 0;
    const { status, stderr } = await deploy("--env", "production");
    if (status !== 0) expect(cloudflare.changes).toEqual([]);
    return stderr;
  };
  expect(await refusal(second, first)).toBe("");
  expect(await refusal(second, `${second}-dirty`)).toBe("");
  expect(await refusal(first, first)).toContain("deploy the commit to staging first");
  expect(await refusal(second, first, "v1")).toContain("no commit that has passed its trial");
  for (const other of [third, "0".repeat(40), undefined]) {
    expect(await refusal(second, other)).toContain("which this commit does not contain");
  }
  writeFileSync(join(folder, "wrangler.toml"), "\n", { flag: "a" });
  expect(await refusal(`${second}-dirty`, first)).toContain("Commit everything");
});

it("the same command deploys each environment first and again", async () => {
  commit();
  const production = ["--env", "production", "--jurisdiction", "eu", "--yes"];
  for (const args of [CREATE, CREATE, production, production]) {
    expect(await deploy(...args)).toMatchObject({ status: 0, stderr: "" });
  }
  const trials = verify.mock.calls.filter(([{ url }]) => !url.includes(WORKER));
  expect(trials).toHaveLength(3);
  for (const [trial] of trials) expect(trial).toMatchObject({ isReadOnly: true, isWriting: false });
  for (const name of [WORKER, "store-orders-production"]) {
    expect(cloudflare.workers.find(name).versions.list).toHaveLength(2);
  }
  expect(cloudflare.changes).toContain("create database store-orders-production-keys in eu");
});
