import { sql } from "drizzle-orm";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import * as checks from "../../../src/operator/deploy/checks.ts";
import { deployProgram } from "../../../src/operator/deploy/program.ts";
import * as settings from "../../../src/operator/settings.ts";
import { OtherVersionError } from "../../../src/operator/verify/service-promise.ts";
import * as verification from "../../../src/operator/verify/verify.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { failure, runInProcess } from "../in-process.ts";
import { FakeCloudflare, Lie, LostConnection } from "./fake-cloudflare.ts";
import { atEveryCall, shortenPauses } from "./faults.ts";
import { HEALTHY } from "./fake-workers.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { type ApiCall, ApiError } from "./route.ts";
import type { Outcome } from "./run-command.ts";

const labelRealCommit = checks.labelCommit;
const runRealWrangler = wrangler.runWrangler;
const readRealSettings = settings.readSettings;
const runWrangler = vi.spyOn(wrangler, "runWrangler");
const readSettings = vi.spyOn(settings, "readSettings");
const labelCommit = vi.spyOn(checks, "labelCommit");
const localChecks = vi.spyOn(checks, "localChecks");
// The deployed service is a fake, so the verification is mocked. test/operator/verify tests the
// verification with a real service.
const verify = vi.spyOn(verification, "verifyStore");

const WORKER = "store-orders-staging";
const HOST = `${WORKER}.example.workers.dev`;
const ORDERS = `${WORKER}-orders`;
const KEYS = `${WORKER}-keys`;
const DOMAIN = "orders.shop.example";
const BROKEN = { status: 500, body: '{"code":"internal_error"}' };
const KEPT: verification.Verification = {
  isKept: true,
  promises: [{ promise: "HEAD", result: "kept" }],
};
const NOT_KEPT: verification.Verification = {
  isKept: false,
  promises: [{ promise: "HEAD", result: "broken", reason: "has a body", requestId: "r-1" }],
};
const CREATE = ["--location", "weur", "--yes"];
/** The real wrangler takes seconds for each step. */
vi.setConfig({ testTimeout: 180_000 });

let cloudflare: FakeCloudflare;
beforeEach(async () => {
  patienceMs = 0;
  cloudflare = new FakeCloudflare();
  await cloudflare.start();
  cloudflare.workers.domains.set("www.shop.example", "another Worker");
  runWrangler.mockImplementation(runFakeWrangler);
  verify.mockResolvedValue(KEPT);
});
afterEach(async () => {
  vi.resetAllMocks();
  vi.unstubAllGlobals();
  await cloudflare.stop();
});

let patienceMs = 0;
function deploy(...args: string[]): Promise<Outcome> {
  return runInProcess(deployProgram(patienceMs), args);
}

/** Deploys without the local checks. */
function deployToStaging(...args: readonly string[]): Promise<Outcome> {
  return deploy("--env", "staging", "--skip-checks", ...args);
}

/** Runs the real wrangler, but not for `--dry-run`, which sends nothing to the fake account. */
function useRealWrangler(): void {
  runWrangler.mockImplementation((args, options) =>
    (args.includes("--dry-run") ? runFakeWrangler : runRealWrangler)(args, options),
  );
}

function changeSettings(changes: Partial<settings.Settings>): void {
  readSettings.mockImplementation(async (...args) => ({
    ...(await readRealSettings(...args)),
    ...changes,
  }));
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
  const { status, stdout, stderr } = await deployToStaging(...CREATE);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(cloudflare.changes).toEqual([
    `create database ${ORDERS} in weur`,
    `create database ${KEYS} in weur`,
    ...migrate(ORDERS),
    ...migrate(KEYS),
    `deploy ${WORKER}`,
    `change the settings of ${WORKER}`,
    // Deploys the same version again, to record that the trial requests succeeded.
    `deploy ${WORKER}: ${cloudflare.workers.find(WORKER).versions.current} 100 %`,
  ]);
  expect(stdout).toContain(`Deployed staging: https://${HOST}`);
  const deployed = cloudflare.workers.find(WORKER);
  expect(deployed.migrationTag).toBe("v1");
  for (const name of DATABASE_NAMES) {
    const id = cloudflare.d1.find(`${WORKER}-${name}`).uuid;
    expect(deployed.bindings).toContainEqual({ name: BINDINGS[name], type: "d1", id });
  }
  expect(deployed.bindings).toContainEqual(
    expect.objectContaining({ name: "RATE_LIMITER", type: "durable_object_namespace" }),
  );
  expect(deployed.assets).toMatchObject({ run_worker_first: ["/v1/*", "/healthz"] });
  expect(cloudflare.workers.crons.get(WORKER)).toEqual(["23 * * * *"]);
  expect(cloudflare.workers.files).toMatchObject({
    "/openapi.json": { size: Buffer.byteLength(openApiDocument()) },
    "/index.html": {},
  });
  const { tag, message } = await labelRealCommit();
  expect(deployed.versions.list).toMatchObject([
    { annotations: { "workers/message": message, "workers/tag": tag } },
  ]);
  const hostnames = cloudflare.workers.requests.map(({ hostname }) => hostname);
  expect(new Set(hostnames)).toEqual(new Set([HOST]));
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
  const { status, stdout, stderr } = await deployToStaging();
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const version = versions.current ?? "";
  expect(version).not.toBe(before);
  expect(cloudflare.changes).toEqual([
    ...migrate(ORDERS, 1),
    ...migrate(KEYS, 1),
    `upload ${WORKER}`,
    `change the settings of ${WORKER}`,
    `deploy ${WORKER}: ${before} 100 %, ${version} 0 %`,
    `deploy ${WORKER}: ${version} 100 %`,
    `deploy ${WORKER}: ${version} 100 %`,
    `change the settings of ${WORKER}`,
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
  const answered = cloudflare.workers.requests.map((request) => request.version);
  expect(new Set(answered)).toEqual(new Set([version]));
  const { tag, message } = await labelRealCommit();
  expect(versions.describe(version)).toMatchObject({
    annotations: { "workers/message": message, "workers/tag": tag },
  });
  expect(cloudflare.workers.crons.get(WORKER)).toEqual(["23 * * * *"]);
  expect(stdout).toMatch(
    /The way back to the orders before: npx wrangler d1 time-travel restore \S+-orders --env staging --bookmark=\S/,
  );
  expect(stdout).toMatch(
    /The way back to the keys before: npm run keys -- restore --env staging --bookmark=\S/,
  );
  expect(stdout).toContain(`Deployed staging: https://${HOST}\n`);
  expect(stdout).toContain(`npx wrangler rollback ${before} --env staging`);
});

describe("whatever happens at any step", () => {
  beforeEach(async () => {
    shortenPauses();
    // Caches both results: otherwise, each of the many runs would start git and parse a file.
    labelCommit.mockResolvedValue(await labelRealCommit());
    readSettings.mockResolvedValue(await readRealSettings("staging"));
  });

  const isRecorded = () => {
    const [last] = cloudflare.workers.find(WORKER).versions.deployments;
    return last?.annotations["workers/message"]?.endsWith("has passed its trial") === true;
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
      if (requests % 5 !== 1) return HEALTHY;
      try {
        ask("health")?.();
        return HEALTHY;
      } catch {
        return BROKEN;
      }
    };
  }

  const current = () => cloudflare.workers.scripts.get(WORKER)?.versions.current;

  function isFinished(before: string | undefined): boolean {
    const isMigrated = [ORDERS, KEYS].every((database) => {
      const { sqlite, migrations } = cloudflare.d1.find(database);
      return sqlite.prepare("SELECT name FROM d1_migrations").all().length === migrations.length;
    });
    return current() !== before && isRecorded() && isMigrated;
  }

  /** The claims about the account in error messages, each with a check that the claim is true. */
  const CLAIMS: readonly [RegExp, (before: string | undefined, rollback?: string) => boolean][] = [
    [/Nothing was changed\./, (before) => current() === before && cloudflare.changes.length === 0],
    [/still serves|All traffic is back/, (before) => current() === before],
    [
      /The rollback failed too: .+\nTo roll back: npx wrangler rollback (\S+) --env staging\n/,
      (before, rollback) => rollback === before,
    ],
    [/What is deployed goes on serving/, (before) => current() === before],
    [/The new version serves/, (before) => current() !== before && current() !== undefined],
    [/What has been created stays/, () => true],
    [/The Worker is deployed\./, () => current() !== undefined],
  ];

  it.each([
    ["a deployment", [], false],
    ["a first roll-out", ["--location=weur", "--yes"], true],
  ] as const)(
    "%s ends finished or gone back, or says what stands and how to go on",
    async (_, args, isFirst) => {
      let before: string | undefined;
      const ends = new Set<string>();
      const run = () => {
        cloudflare.clear();
        earlyRecords = 0;
        disturbTrials();
        if (!isFirst) ({ before } = cloudflare.deployService("staging", { without: 1 }));
        return deployToStaging(...args);
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
        const again = await deployToStaging(...args);
        expect(again, `${label}\n${again.stderr}`).toMatchObject({ status: 0 });
        expect(isFinished(before), label).toBe(true);
      });
    },
  );
});

it("a dry run prints the steps, also without a login, and what only an account can check", async () => {
  changeSettings({ customDomains: [DOMAIN] });
  const dryRun = (...args: string[]) => deployToStaging(...args, "--dry-run");
  const would = (dry: Outcome) => titlesIn(dry, /^Would: (.*)$/gm);
  const first = await dryRun(...CREATE);
  cloudflare.deployService("staging", { without: 1 });
  const next = await dryRun();
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
  const without = await dryRun();
  expect(without.stdout).toContain(
    `Not checked without a login: Check the Worker and its databases\nNot checked without a login: Check that ${DOMAIN} is free\nWould: `,
  );
  for (const dry of [first, next, without]) expect(dry).toMatchObject({ status: 0, stderr: "" });
  expect(cloudflare.changes).toEqual([]);
  expect(would(without)).toEqual([
    ...[ORDERS, KEYS].map((name) => `Create the database ${name}, if it is missing`),
    ...would(next),
  ]);
  const refused = await deployToStaging();
  expect(refused).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('Cloudflare" failed: not logged in'),
  });
  vi.stubEnv("CLOUDFLARE_API_TOKEN", cloudflare.environment["CLOUDFLARE_API_TOKEN"]);
  const real = await deployToStaging();
  expect(real.status).toBe(0);
  expect(titlesIn(real, /^((?!Check|Log in).*) \.\.\.$/gm)).toEqual(would(next));
  expect(would(next)).toHaveLength(8);
});

it("a dry run prints all steps, although checks fail, and fails at the end", async () => {
  localChecks.mockReturnValue([
    { title: "Check the tree", run: () => Promise.reject(new Error("not committed: a.ts")) },
  ]);
  cloudflare.deployService("production");
  const { status, stdout, stderr } = await deploy("--env", "production", "--dry-run");
  expect(status).toBe(1);
  expect(stdout).toContain("Check the tree ...\nFailed: not committed: a.ts\n");
  expect(stdout).toContain("Would: Send all traffic to the new version\n");
  expect(stdout).toContain("Dry run: nothing was changed.\n");
  expect(stderr).toBe(
    "error: a deployment would stop here: Check the tree; Check that staging serves this commit\n",
  );
  expect(cloudflare.changes).toEqual([]);
});

it("asks before it creates something, and changes nothing without a terminal", async () => {
  cloudflare.d1.create(KEYS);
  const { status, stdout, stderr } = await deployToStaging("--location", "weur");
  expect(stdout).toContain(`The database ${KEYS} exists already, and stays where it is.`);
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr:
      `This creates the database ${ORDERS} near weur, the Worker ${WORKER}.\n` +
      "error: nothing was changed, because there is no terminal to ask at: confirm with --yes\n",
  });
  expect(cloudflare.changes).toEqual([]);
});

describe("a trial", () => {
  it.each([
    ["ignores the header that selects a version", "Try the new version", true, 0],
    // Late: some of Cloudflare's servers still run the previous version.
    ["is late", "Try the new version with all traffic", false, 1],
  ])("does not mistake the version before if Cloudflare %s", async (_, title, ignores, trials) => {
    const { before } = cloudflare.deployService("staging");
    cloudflare.workers.ignoresOverrides = ignores;
    cloudflare.workers.lateVersion = before;
    const { status, stderr } = await deployToStaging();
    expect(status).toBe(1);
    expect(stderr).toContain(`"${title}" failed`);
    expect(stderr).toMatch(/does not answer from version [\w-]{36}/);
    expect(verify).toHaveBeenCalledTimes(trials);
    expect(cloudflare.changes.at(-1)).toBe(`deploy ${WORKER}: ${before} 100 %`);
  });

  it("begins again while the version is not healthy, also after another version has answered", async () => {
    cloudflare.deployService("staging");
    shortenPauses();
    const unhealthy = [BROKEN];
    cloudflare.workers.answer = () => unhealthy.pop() ?? HEALTHY;
    const clock = vi.spyOn(performance, "now").mockReturnValue(0);
    const cause = new OtherVersionError("GET / is not answered by the version");
    verify.mockImplementationOnce(async () => {
      clock.mockReturnValue(59_000);
      unhealthy.push(BROKEN);
      throw new Error(cause.message, { cause });
    });
    patienceMs = 60_000;
    expect(await deployToStaging()).toMatchObject({ status: 0 });
    clock.mockRestore();
    expect(verify).toHaveBeenCalledTimes(3);
    // Each of five attempts sends five parallel health requests.
    expect(cloudflare.workers.requests).toHaveLength(25);
  });

  it("does not begin again after an error of a healthy version", async () => {
    cloudflare.deployService("staging");
    verify.mockRejectedValueOnce(new Error("a key could not be made"));
    patienceMs = 60_000;
    expect(await deployToStaging()).toMatchObject({ status: 1 });
    expect(verify).toHaveBeenCalledOnce();
  });
});

it("near reads are deployed only if the database exists and is replicated", async () => {
  changeSettings({ vars: { LIST_READS: "nearest" } });
  const expectRefusal = async () => {
    const { status, stderr } = await deployToStaging(...CREATE);
    expect(status).toBe(1);
    expect(stderr).toContain(`LIST_READS is nearest, but the database ${ORDERS} is not replicated`);
    expect(stderr).toContain("Nothing was changed.");
    expect(cloudflare.changes).toEqual([]);
  };
  await expectRefusal();
  cloudflare.deployService("staging");
  await expectRefusal();
  cloudflare.d1.find(ORDERS).replication = "auto";
  expect(await deployToStaging()).toMatchObject({ status: 0 });
  const options = { env: expect.objectContaining({ LIST_READS: "nearest" }), isShielded: true };
  expect(runWrangler).toHaveBeenCalledWith(expect.arrayContaining(["upload"]), options);
  const triggers = ["triggers", "deploy", "--env", "staging"];
  expect(runWrangler).toHaveBeenCalledWith(triggers, { isShielded: true });
});

/** Creates databases without a Worker, one of them with a row. */
function createWith(database: string, row: string): void {
  cloudflare.d1.createStore("staging");
  cloudflare.d1.find(database).sqlite.exec(`INSERT INTO ${row}`);
}

/** The error message of each refusal, the arguments, and a function that causes the refusal. */
const REFUSALS: readonly (readonly [string | RegExp, readonly string[], () => unknown])[] = [
  [`database ${ORDERS} holds data`, CREATE, () => createWith(ORDERS, "orders (id) VALUES (1)")],
  [
    `no Worker ${WORKER}, but the database ${ORDERS} holds data`,
    CREATE,
    () => createWith(ORDERS, "cancelled_orders (cancelled_at, id) VALUES (1, 1)"),
  ],
  [
    `database ${KEYS} holds data`,
    CREATE,
    () => createWith(KEYS, "key_changes VALUES (1, 1, 'ada', 'create', 'key_1', '{}')"),
  ],
  [
    `no Worker ${WORKER}, but the database ${KEYS} holds data`,
    CREATE,
    () =>
      createWith(
        KEYS,
        "api_keys (id, hash, last_four, name, plan, created_at) VALUES (1, 2, 'abcd', 3, 'pro', 4)",
      ),
  ],
  [
    `the database ${KEYS} exists already, outside the jurisdiction eu. No database can move. It is empty: npx wrangler d1 delete ${KEYS}`,
    ["--jurisdiction", "eu"],
    () => [cloudflare.d1.create(ORDERS, "eu"), cloudflare.d1.create(KEYS)],
  ],
  [
    `there is no ${ORDERS} and ${KEYS}: add --location REGION or --jurisdiction NAME`,
    ["--yes"],
    () => {},
  ],
  [
    `the Worker ${WORKER} exists, but there is no database x-keys`,
    [],
    () => changeSettings({ databases: { orders: ORDERS, keys: "x-keys" } }),
  ],
  [
    /uses the database [\w-]{36} as ORDERS, but x-orders is [\w-]{36}/,
    [],
    () => {
      cloudflare.d1.create("x-orders");
      changeSettings({ databases: { orders: "x-orders", keys: KEYS } });
    },
  ],
  ["has the migration v2 of Durable Objects", [], () => changeSettings({ migrationTag: "v2" })],
  [
    /[\w-]{36} 60 %, [\w-]{36} 40 %/,
    [],
    () => {
      const { versions } = cloudflare.workers.find(WORKER);
      const other = { version_id: versions.upload("other"), percentage: 40 };
      versions.divide([{ version_id: versions.current ?? "", percentage: 60 }, other]);
    },
  ],
  [
    "then run: npx wrangler triggers deploy --env staging",
    [],
    () => cloudflare.workers.offWorkersDev.add(WORKER),
  ],
  [
    `${DOMAIN} is the address of the Worker shop`,
    [],
    () => {
      changeSettings({ customDomains: [DOMAIN] });
      cloudflare.workers.domains.set(DOMAIN, "shop");
    },
  ],
  [
    "shop.example is in use (A a, AAAA a, CNAME a)",
    [],
    () => {
      changeSettings({ customDomains: ["shop.example"] });
      for (const type of ["A", "AAAA", "CNAME", "TXT"])
        cloudflare.workers.records.push({ name: "shop.example", type, content: "a" });
    },
  ],
  ["no zone of this login", [], () => changeSettings({ customDomains: ["orders.other.example"] })],
  ["Authentication error", [], () => vi.stubEnv("CLOUDFLARE_API_TOKEN", "wrong")],
];

describe("a deployment changes nothing, and refuses", () => {
  it.each(REFUSALS)("%s", async (message, args, cause) => {
    if (args.length === 0) cloudflare.deployService("staging");
    cause();
    const { status, stderr } = await deployToStaging(...args);
    expect(status).toBe(1);
    expect(stderr).toMatch(message);
    expect(stderr).toContain("Nothing was changed.");
    expect(cloudflare.changes).toEqual([]);
  });

  it("a commit for production that staging does not serve", async () => {
    localChecks.mockReturnValue([]);
    cloudflare.deployService("production");
    cloudflare.deployService("staging", { commit: "0000000" });
    const { status, stderr } = await deploy("--env", "production");
    expect(status).toBe(1);
    expect(stderr).toContain("staging serves 0000000, and this is ");
    expect(cloudflare.changes).toEqual([]);
  });

  it.each([
    [[], "required option '--env <environment>' not specified"],
    [["--env", "staging", "--location", "mars"], "Allowed choices"],
    [["--env", "staging", "--location", "weur", "--jurisdiction", "eu"], "cannot be used with"],
  ])("the options %j", async (args, message) => {
    expect(await deploy(...args)).toEqual(failure(message, 2));
  });
});

it.each([{ isOnWorkersDev: false }, { crons: ["1 * * * *"] }])(
  "fails if Cloudflare has not applied %j, and says how to apply it",
  async (changes) => {
    const { versions, before } = cloudflare.deployService("staging");
    changeSettings(changes);
    const { status, stderr } = await deployToStaging();
    expect(status).toBe(1);
    expect(stderr).toContain("workers.dev or the cron triggers differ\nThe new version serves.");
    expect(stderr).toContain(`npx wrangler rollback ${before} --env staging\n`);
    expect(versions.current).not.toBe(before);
  },
);

it.each([
  [new LostConnection(), 3],
  [new ApiError(429, 10_000, "Too many requests"), 3],
  [new ApiError(408, 10_000, "Request timeout"), 3],
  [new ApiError(403, 10_000, "Forbidden"), 1],
])("does not take an earlier trial for its own: %s, %i attempts", async (error, attempts) => {
  labelCommit.mockResolvedValue({ tag: undefined, message: "v1" });
  const { versions, before } = cloudflare.deployService("staging");
  const earlier = { version_id: versions.upload("earlier"), percentage: 0 };
  versions.divide([{ version_id: before, percentage: 100 }, earlier], "trial of v1");
  shortenPauses();
  let posted = 0;
  cloudflare.interfere = ({ method, path }) => {
    if (method !== "POST" || !path.endsWith("/deployments")) return;
    posted += 1;
    throw error;
  };
  const { stderr } = await deployToStaging();
  expect(stderr).toContain('"Make the new version available without traffic" failed');
  // The upload must omit the missing tag, instead of sending the text "undefined".
  expect(JSON.stringify(versions.list)).not.toContain("undefined");
  // The rollback makes as many attempts as the failed step.
  expect(posted).toBe(2 * attempts);
});

it("the same command deploys each environment first and again", async () => {
  localChecks.mockReturnValue([]);
  const staging = ["--env", "staging", "--location", "weur", "--yes"];
  const production = ["--env", "production", "--jurisdiction", "eu", "--yes"];
  for (const args of [staging, staging, production, production]) {
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
