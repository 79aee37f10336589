import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import * as checks from "../../../src/operator/deploy/checks.ts";
import { deployProgram } from "../../../src/operator/deploy/program.ts";
import * as settings from "../../../src/operator/settings.ts";
import type { RemoteEnvironment } from "../../../src/operator/environment.ts";
import { OtherVersionError } from "../../../src/operator/verify/caller.ts";
import type { Verification } from "../../../src/operator/verify/verify.ts";
import { verifyProgram } from "../../../src/operator/verify/program.ts";
import * as storeVerifying from "../../../src/operator/verify/verify-store.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { runInProcess } from "../in-process.ts";
import { FakeCloudflare, Lie, redirectWorkerHosts } from "./fake-cloudflare.ts";
import { disturb, FAULTS, shortenPauses } from "./faults.ts";
import { FakeVersions } from "./fake-versions.ts";
import { HEALTHY } from "./fake-workers-api.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { ApiError } from "./route.ts";
import { runCommand } from "./run-command.ts";
import type { Outcome } from "./run-command.ts";
import { readCases } from "./runbook.ts";

const labelRealCommit = checks.labelCommit;
const runRealWrangler = wrangler.runWrangler;
const readRealSettings = settings.readSettings;
const runWrangler = vi.spyOn(wrangler, "runWrangler");
const readSettings = vi.spyOn(settings, "readSettings");
const labelCommit = vi.spyOn(checks, "labelCommit");
const localChecks = vi.spyOn(checks, "localChecks");
// Verification is mocked, because these tests have only a fake of the service. test/operator/verify
// tests the verification with the real service.
const verifyStore = vi.spyOn(storeVerifying, "verifyStore");

const WORKER = "store-orders-staging";
const HOST = `${WORKER}.example.workers.dev`;
const ORDERS = `${WORKER}-orders`;
const KEYS = `${WORKER}-keys`;
const DOMAIN = "orders.shop.example";
const BROKEN = { status: 500, body: '{"code":"internal_error"}' };
const KEPT: Verification = { isKept: true, promises: [{ promise: "HEAD", result: "kept" }] };
const NOT_KEPT: Verification = {
  isKept: false,
  promises: [{ promise: "HEAD", result: "broken", reason: "has a body", requestId: "r-1" }],
};

let cloudflare: FakeCloudflare;
beforeEach(async () => {
  cloudflare = new FakeCloudflare();
  await cloudflare.start();
  for (const [name, value] of Object.entries(cloudflare.environment)) vi.stubEnv(name, value);
  redirectWorkerHosts(cloudflare);
  runWrangler.mockImplementation(runFakeWrangler);
  verifyStore.mockResolvedValue(KEPT);
});
afterEach(async () => {
  runWrangler.mockReset();
  readSettings.mockReset();
  labelCommit.mockReset();
  localChecks.mockReset();
  verifyStore.mockReset();
  vi.unstubAllGlobals();
  vi.unstubAllEnvs();
  await cloudflare.stop();
});

function deploy(...args: string[]): Promise<Outcome> {
  return runInProcess(deployProgram(), args);
}

/** Deploys to staging, without the local checks and without waiting for a healthy version. */
function deployToStaging(...args: string[]): Promise<Outcome> {
  return deploy("--env", "staging", "--skip-checks", "--patience", "0", ...args);
}

/** Finds a command in an error message, and returns the arguments of the command. */
function argumentsIn(message: string, command: RegExp): string[] {
  const [, args] = command.exec(message) ?? [];
  if (args === undefined) throw new Error(`${command} is not in: ${message}`);
  return args.split(" ");
}

/**
 * Creates a deployed service in the fake account. With `isBehind`, each of its databases lacks the
 * last migration.
 */
function rollOut({
  env = "staging",
  isBehind = false,
  commit,
}: { env?: RemoteEnvironment; isBehind?: boolean; commit?: string | undefined } = {}): {
  versions: FakeVersions;
  before: string;
} {
  cloudflare.d1.createStore(env, { without: isBehind ? 1 : 0 });
  const name = `store-orders-${env}`;
  const bindings = DATABASE_NAMES.map((database) => {
    const { uuid } = cloudflare.d1.find(`${name}-${database}`);
    return { name: BINDINGS[database], type: "d1", id: uuid };
  });
  const versions = new FakeVersions();
  const before = versions.upload("the version before", { tag: commit, bindings });
  versions.deploy(before);
  cloudflare.workers.scripts.set(name, { bindings, migrationTag: "v1", versions });
  return { versions, before };
}

/** Changes the settings that the command reads from wrangler.toml. */
function changeSettings(change: (found: settings.Settings) => settings.Settings): void {
  readSettings.mockImplementation(async (...args) => change(await readRealSettings(...args)));
}

const lastMigration = (database: string) =>
  cloudflare.d1.find(database).migrations.at(-1)?.name ?? "";

/** The table of applied migrations is created if it is missing. */
const lookAtMigrations = (database: string) => `write to ${database}`;

const applyMigrations = (database: string) => [
  lookAtMigrations(database),
  ...cloudflare.d1.find(database).migrations.map(({ name }) => `migrate ${database}: ${name}`),
];

/** A long timeout, because the real wrangler takes seconds for each step. */
const TIMEOUT_MS = 180_000;

const CREATE = ["--env", "staging", "--create", "--location", "weur"];

describe("the first roll-out", () => {
  it(
    "creates the databases where it is told, migrates them, and deploys",
    { timeout: TIMEOUT_MS },
    async () => {
      // The dry run is fake, because build.node.test.ts runs the same command with wrangler.
      runWrangler.mockImplementation((args, options) =>
        args.includes("--dry-run") ? runFakeWrangler(args) : runRealWrangler(args, options),
      );
      const { status, stdout, stderr } = await deploy(...CREATE, "--domain", DOMAIN);
      expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
      expect(cloudflare.changes).toEqual([
        `create database ${ORDERS} in weur`,
        `create database ${KEYS} in weur`,
        ...applyMigrations(ORDERS),
        ...applyMigrations(KEYS),
        `deploy ${WORKER}`,
        `attach ${DOMAIN}`,
        // Deploys the same version again. The message of this deployment records that the trial
        // requests succeeded.
        `deploy ${WORKER}: ${cloudflare.workers.find(WORKER).versions.current} 100 %`,
      ]);
      expect(stdout).toContain(`Deployed staging: https://${DOMAIN}, https://${HOST}`);
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
      expect(cloudflare.assets.files.get("/openapi.json")).toBe(openApiDocument());
      expect(cloudflare.assets.files.get("/index.html")).toContain("<h1 ");
      const { tag, message } = await labelRealCommit();
      expect(deployed.versions.list()).toMatchObject([
        { annotations: { "workers/message": message, "workers/tag": tag } },
      ]);
      expect(cloudflare.workers.requests.map(({ hostname }) => hostname)).toEqual(
        expect.arrayContaining([DOMAIN, HOST]),
      );
    },
  );

  it("refuses an empty database outside the jurisdiction", async () => {
    cloudflare.d1.create(ORDERS, "eu");
    cloudflare.d1.create(KEYS);
    const { status, stderr } = await deployToStaging("--create", "--jurisdiction", "eu");
    expect(status).toBe(1);
    expect(stderr).toContain(`the database ${KEYS} exists already, outside the jurisdiction eu`);
    expect(stderr).toContain(`npx wrangler d1 delete ${KEYS}`);
    expect(cloudflare.changes).toEqual([]);
  });

  it.each([
    [ORDERS, "INSERT INTO orders (id) VALUES (1)"],
    [ORDERS, "INSERT INTO cancelled_orders (cancelled_at, id) VALUES (1, 1)"],
    [KEYS, "INSERT INTO key_changes VALUES (1, 1, 'ada', 'create', 'key_1', '{}')"],
  ])("refuses a database that already has data: %s, %s", async (name, row) => {
    cloudflare.d1.createStore("staging");
    cloudflare.d1.find(name).sqlite.exec(row);
    const { status, stderr } = await deployToStaging("--create", "--location", "weur");
    expect(status).toBe(1);
    expect(stderr).toContain(`no Worker ${WORKER}, but the database ${name} holds data`);
    expect(cloudflare.changes).toEqual([]);
  });

  it("refuses a Worker that already exists", async () => {
    rollOut();
    const { status, stderr } = await deployToStaging("--create", "--location", "weur");
    expect(status).toBe(1);
    expect(stderr).toContain(`the Worker ${WORKER} exists already. Leave out --create`);
    expect(cloudflare.changes).toEqual([]);
  });

  it("requires the option --create", async () => {
    const { status, stderr } = await deployToStaging();
    expect(status).toBe(1);
    expect(stderr).toContain(`there is no Worker ${WORKER}. Add --create for a first roll-out`);
    expect(stderr).toContain("Nothing was changed.");
    expect(cloudflare.changes).toEqual([]);
  });
});

/** Fails the trial for the fault that disturbs the fake account. */
function disturbTrials(): void {
  const ask = (path: string) =>
    cloudflare.interfere({ method: "try", path } as Parameters<FakeCloudflare["interfere"]>[0]);
  verifyStore.mockImplementation(async ({ signal }) => {
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
    // A trial begins with five requests at once.
    if (requests % 5 !== 1) return HEALTHY;
    try {
      ask("health")?.();
      return HEALTHY;
    } catch {
      return BROKEN;
    }
  };
}

describe("whatever happens at any step", () => {
  beforeEach(async () => {
    shortenPauses();
    // The steps need these once.
    labelCommit.mockResolvedValue(await labelRealCommit());
    readSettings.mockResolvedValue(await readRealSettings("staging"));
  });

  /** Starts from an account without anything else, and returns the id of the deployed version. */
  function prepare(isFirst: boolean): string | undefined {
    cloudflare.clear();
    disturbTrials();
    return isFirst ? undefined : rollOut({ isBehind: true }).before;
  }

  const current = () => cloudflare.workers.scripts.get(WORKER)?.versions.current;

  /** True if all of a deployment is done, by what is in the account. */
  function isFinished(before: string | undefined): boolean {
    const { versions } = cloudflare.workers.find(WORKER);
    const [last] = versions.deployments() as { annotations: Record<string, string> }[];
    const isMigrated = [ORDERS, KEYS].every((database) => {
      const { sqlite, migrations } = cloudflare.d1.find(database);
      return sqlite.prepare("SELECT name FROM d1_migrations").all().length === migrations.length;
    });
    return (
      versions.current !== before &&
      last?.annotations["workers/message"]?.endsWith("has passed its trial") === true &&
      isMigrated
    );
  }

  /** The claims of a failed deployment about the account, and whether each is true. */
  const CLAIMS: readonly [RegExp, (before: string | undefined) => boolean][] = [
    [/Nothing was changed\./, (before) => current() === before && cloudflare.changes.length === 0],
    [/goes on serving|still serves|All traffic is back/, (before) => current() === before],
    [/The rollback failed too:[^]*To roll back: npx wrangler rollback \S{36} /, () => true],
    [/The new version serves/, (before) => current() !== before && current() !== undefined],
    [/it goes on with what exists/, () => true],
    [/The Worker is deployed\.|The service is deployed/, () => current() !== undefined],
  ];

  it.each([
    ["a deployment", [], false],
    ["a first roll-out", ["--create", "--location=weur", "--domain", DOMAIN], true],
  ] as const)(
    "%s ends finished or gone back, or says what stands and how to go on",
    { timeout: TIMEOUT_MS },
    async (_, args, isFirst) => {
      prepare(isFirst);
      const seen = disturb(cloudflare, "none", 0);
      expect(await deployToStaging(...args)).toMatchObject({ status: 0 });
      const calls = [...seen()];
      expect(calls.length).toBeGreaterThan(30);
      const ends = new Set<string>();
      for (const fault of Object.keys(FAULTS)) {
        for (const [position, call] of calls.entries()) {
          if (call.startsWith("GET") && fault.endsWith("after it")) continue;
          const before = prepare(isFirst);
          disturb(cloudflare, fault, position);
          const { status, stdout, stderr } = await deployToStaging(...args);
          const label = `${fault}, call ${position}, ${call}:\n${stdout}${stderr}`;
          cloudflare.interfere = () => {};
          if (status === 0) {
            expect(isFinished(before), label).toBe(true);
            continue;
          }
          expect(stderr, label).toMatch(/^error: ".*" failed: ./);
          const claims = CLAIMS.filter(([claim]) => claim.test(stderr));
          expect(claims.length, label).toBeGreaterThan(0);
          for (const [claim, isTrue] of claims)
            expect(isTrue(before), `${claim} ${label}`).toBe(true);
          // Continues once from each state of the account.
          const end = `${stderr} ${cloudflare.changes.join()}`.replaceAll(
            /[\da-f]{8}-[\da-f-]+/g,
            "",
          );
          if (ends.has(end)) continue;
          ends.add(end);
          disturbTrials();
          const goOn = (said: string) =>
            deploy(...argumentsIn(said, /remove the cause and run `npm run deploy -- (.*)`/));
          const once = await goOn(stderr);
          // Without a connection, nobody knows whether a first roll-out has made the Worker.
          const again = once.status === 0 || !isFirst ? once : await goOn(once.stderr);
          expect(again, `${label}\n${again.stderr}`).toMatchObject({ status: 0 });
          expect(isFinished(before), label).toBe(true);
        }
      }
    },
  );
});

/** Returns the changes that a deployment makes in the account. */
const STEPS = (before: string, version: string) => [
  lookAtMigrations(ORDERS),
  `migrate ${ORDERS}: ${lastMigration(ORDERS)}`,
  lookAtMigrations(KEYS),
  `migrate ${KEYS}: ${lastMigration(KEYS)}`,
  `upload ${WORKER}`,
  `deploy ${WORKER}: ${before} 100 %, ${version} 0 %`,
  `deploy ${WORKER}: ${version} 100 %`,
  // Deploys the same version again. The message of this deployment records that the trial requests
  // succeeded.
  `deploy ${WORKER}: ${version} 100 %`,
];

describe("a deployment", () => {
  it.each([
    ["wrangler", runRealWrangler],
    ["the fake wrangler", runFakeWrangler],
  ])(
    "with %s tries the new version before and after it gets traffic",
    { timeout: TIMEOUT_MS },
    async (_, run) => {
      // build.node.test.ts runs the dry run with wrangler.
      runWrangler.mockImplementation(async (args, options) =>
        args[0] === "deploy" ? runFakeWrangler(args) : run(args, options),
      );
      const { versions, before } = rollOut({ isBehind: true });
      const tried: object[] = [];
      verifyStore.mockImplementation(async (options) => {
        const { signal, ...others } = options;
        expect(signal?.aborted).toBe(false);
        tried.push({ ...others, current: versions.current });
        return KEPT;
      });
      const { status, stdout, stderr } = await deployToStaging();
      expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
      const version = versions.current ?? "";
      expect(version).not.toBe(before);
      expect(cloudflare.changes).toEqual(STEPS(before, version));
      const trial = {
        url: `https://${HOST}`,
        store: { env: "staging" },
        headers: { "Cloudflare-Workers-Version-Overrides": `${WORKER}="${version}"` },
        version,
        isReadOnly: false,
        isWriting: true,
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
      for (const name of DATABASE_NAMES) {
        const way = `Note the state of the ${name} database ...\nThe way back to it: npm run time-travel`;
        expect(stdout).toContain(`${way} -- restore --env staging --database ${name} --bookmark `);
      }
      expect(stdout).toContain(`Deployed staging: https://${HOST}`);
      expect(stdout).toContain(`npx wrangler rollback ${before} --env staging`);
    },
  );

  it("prints its steps in a dry run without executing them", async () => {
    rollOut({ isBehind: true });
    const dry = await deployToStaging("--domain", DOMAIN, "--dry-run");
    expect(dry).toMatchObject({ status: 0, stderr: "" });
    expect(cloudflare.changes).toEqual([]);
    const announced = [...dry.stdout.matchAll(/^Would: (.*)$/gm)].map(([, title]) => title);
    const real = await deployToStaging("--domain", DOMAIN);
    expect(real.status).toBe(0);
    const taken = [...real.stdout.matchAll(/^(.*) \.\.\.$/gm)].map(([, title]) => title);
    expect(taken.filter((title) => !/^(?:Check|Log in)/.test(title ?? ""))).toEqual(announced);
    expect(announced).toHaveLength(12);
  });

  it("prints the same steps without a login, and marks what only an account can check", async () => {
    const stepsIn = ({ stdout }: Outcome) =>
      [...stdout.matchAll(/^Would: (.*)$/gm)].map(([, title]) => title);
    const options = ["--domain", DOMAIN, "--dry-run"];
    const create = CREATE.slice(2);
    const withLogin = [await deployToStaging(...create, ...options)];
    rollOut();
    withLogin.push(await deployToStaging(...options));
    vi.stubEnv("CLOUDFLARE_API_TOKEN", "");
    const without = [
      await deployToStaging(...create, ...options),
      await deployToStaging(...options),
    ];
    expect(without.map(stepsIn)).toEqual(withLogin.map(stepsIn));
    for (const { status, stdout, stderr } of without) {
      expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
      expect(stdout).toContain(
        `Not checked without a login: Check the Worker and its databases\nNot checked without a login: Check that ${DOMAIN} is free\nWould: `,
      );
    }
    const real = await deployToStaging();
    expect(real).toMatchObject({ status: 1, stderr: expect.stringContaining("not logged in") });
  });

  it(
    "goes on when nobody reads what it prints, and ends with the true status",
    { timeout: TIMEOUT_MS },
    async () => {
      const { versions, before } = rollOut({ isBehind: true });
      const command = `"${process.execPath}" src/operator/main.ts deploy --env staging --skip-checks --patience 0`;
      const piped = `${command} | head -1; exit \${PIPESTATUS[0]}`;
      const { status, stdout, stderr } = await runCommand("bash", ["-c", piped], { env: {} });
      expect({ status, stdout }).toEqual({
        status: 1,
        stdout: "Check the settings of staging ...\n",
      });
      // The process cannot reach the fake service, so it goes back.
      expect(stderr).toContain(`All traffic is back at the version before, ${before}.`);
      expect(versions.current).toBe(before);
      expect(versions.deployments()).toHaveLength(3);
    },
  );

  it("does not mistake the previous version for the new version", async () => {
    const { before } = rollOut();
    // Cloudflare ignores the header that selects the new version, so the previous version responds.
    cloudflare.workers.ignoresOverrides = true;
    const { status, stderr } = await deployToStaging();
    expect(status).toBe(1);
    expect(stderr).toMatch(/does not answer from version [\w-]{36}/);
    expect(cloudflare.changes.at(-1)).toBe(`deploy ${WORKER}: ${before} 100 %`);
  });

  it("tries the new version again if another version has answered in its trial", async () => {
    rollOut();
    shortenPauses();
    const cause = new OtherVersionError("GET / is not answered by the version");
    verifyStore.mockRejectedValueOnce(new Error(cause.message, { cause }));
    expect(await deployToStaging("--patience", "60")).toMatchObject({ status: 0 });
    expect(verifyStore).toHaveBeenCalledTimes(3);
  });

  it("waits until the new version also answers requests that name no version", async () => {
    const { before } = rollOut();
    // Some of Cloudflare's servers still run the previous version.
    cloudflare.workers.lateVersion = before;
    const { status, stderr } = await deployToStaging();
    expect(status).toBe(1);
    expect(stderr).toContain('"Try the new version with all traffic" failed');
    expect(stderr).toMatch(/does not answer from version [\w-]{36}/);
    expect(verifyStore).toHaveBeenCalledOnce();
  });

  it("prints the command for a rollback if its own rollback fails", async () => {
    const { versions, before } = rollOut();
    cloudflare.workers.answer = () => BROKEN;
    cloudflare.interfere = ({ method, path }) => {
      if (method === "POST" && path.endsWith("/deployments") && versions.deployments().length > 1) {
        throw new ApiError(500, 10013, "unknown error");
      }
    };
    const { stderr } = await deployToStaging();
    expect(stderr).toMatch(/The rollback failed too: .*unknown error/);
    cloudflare.interfere = () => {};
    const command = /npx wrangler (rollback \S+ --env staging)/;
    await runRealWrangler(argumentsIn(stderr, command));
    expect(versions.current).toBe(before);
    // Durable Objects change back at once, too.
    expect(cloudflare.changes.at(-1)).toBe(`deploy ${WORKER}: ${before} 100 %`);
  });

  // runbook.node.test.ts runs the printed command with wrangler.
  it("says how to put a Worker back on workers.dev, where it can be tried", async () => {
    const { versions, before } = rollOut();
    cloudflare.workers.offWorkersDev.add(WORKER);
    const { status, stderr } = await deployToStaging();
    expect(status).toBe(1);
    expect(stderr).toContain(`${WORKER} has no address`);
    expect(cloudflare.changes).toEqual([]);
    const command = /npx wrangler (triggers deploy --env staging)/;
    await runFakeWrangler(argumentsIn(stderr, command));
    expect(await deployToStaging()).toMatchObject({ status: 0, stderr: "" });
    expect(versions.current).not.toBe(before);
  });
});

describe("the checks of the account change nothing, and refuse", () => {
  async function refusal(...args: string[]): Promise<string> {
    const { status, stderr } = await deployToStaging(...args);
    expect(status).toBe(1);
    expect(stderr).toContain("Nothing was changed.");
    expect(cloudflare.changes).toEqual([]);
    return stderr;
  }

  it("a database name without a database", async () => {
    rollOut();
    changeSettings((found) => ({ ...found, databases: { ...found.databases, keys: "x-keys" } }));
    expect(await refusal()).toContain(
      `the Worker ${WORKER} exists, but there is no database x-keys`,
    );
  });

  it("a database other than the one that the Worker uses", async () => {
    rollOut();
    cloudflare.d1.createStore("production");
    const other = "store-orders-production-orders";
    changeSettings((found) => ({ ...found, databases: { ...found.databases, orders: other } }));
    expect(await refusal()).toContain(`but ${other} is ${cloudflare.d1.find(other).uuid}`);
  });

  it("a migration of Durable Objects", async () => {
    rollOut();
    changeSettings((found) => ({ ...found, migrationTag: "v2" }));
    expect(await refusal()).toContain("has the migration v2 of Durable Objects");
  });

  it("a Worker whose traffic is divided between versions", async () => {
    const { versions, before } = rollOut();
    const other = versions.upload("other");
    versions.divide([
      { version_id: before, percentage: 60 },
      { version_id: other, percentage: 40 },
    ]);
    expect(await refusal()).toContain(`${before} 60 %, ${other} 40 %`);
  });

  it("a hostname in use by another Worker or a DNS record", async () => {
    rollOut();
    cloudflare.workers.domains.set(DOMAIN, "shop");
    expect(await refusal("--domain", DOMAIN)).toContain(`the address of the Worker shop`);
    cloudflare.workers.domains.clear();
    cloudflare.workers.records.push({ name: DOMAIN, type: "A", content: "192.0.2.1" });
    expect(await refusal("--domain", DOMAIN)).toContain(`${DOMAIN} is in use (A 192.0.2.1)`);
    expect(await refusal("--domain", "orders.other.example")).toContain("no zone of this login");
  });

  it("an invalid login", async () => {
    vi.stubEnv("CLOUDFLARE_API_TOKEN", "wrong");
    expect(await refusal()).toContain("Authentication error");
  });
});

describe("a deployment to production", () => {
  it("requires that staging runs the same commit", async () => {
    // Skips the local checks, which checks.node.test.ts tests.
    localChecks.mockReturnValue([]);
    const { tag = "" } = await labelRealCommit();
    rollOut({ env: "production", commit: tag });
    const { versions } = rollOut({ env: "staging", commit: "0000000" });
    const run = () => deploy("--env", "production", "--dry-run");
    const refused = await run();
    expect(refused.status).toBe(1);
    expect(refused.stderr).toContain(`staging serves 0000000, and this is ${tag}`);
    const version = versions.upload("this", { tag });
    versions.deploy(version, "this");
    const early = await run();
    expect(early.status).toBe(1);
    expect(early.stderr).toContain("staging serves this commit, but the commit has not passed");
    versions.deploy(version, "this, which has passed its trial");
    expect(await run()).toMatchObject({ status: 0, stderr: "" });
  });
});

describe("the commands of docs/operating.md", () => {
  it("deploy both environments for the first time and again", async () => {
    localChecks.mockReturnValue([]);
    const { commands } = readCases("docs/operating.md").find(
      ({ title }) => title === "Deploying",
    ) ?? { commands: [] };
    expect(commands).toHaveLength(7);
    for (const command of commands) {
      vi.stubEnv("PUBLIC_URL", /^PUBLIC_URL=(\S+) /.exec(command)?.[1]);
      const args = argumentsIn(command, /^(?:PUBLIC_URL=\S+ )?npm run deploy -- (.*)$/);
      expect(await deploy(...args), command).toMatchObject({ status: 0, stderr: "" });
    }
    expect(cloudflare.changes).toEqual(
      expect.arrayContaining([
        `create database ${KEYS} in weur`,
        "create database store-orders-production-keys in eu",
      ]),
    );
    expect([...cloudflare.workers.scripts.keys()]).toEqual([WORKER, "store-orders-production"]);
    expect(cloudflare.workers.domains.get(DOMAIN)).toBe("store-orders-production");
    const trials = verifyStore.mock.calls.map(([{ store, isReadOnly, isWriting }]) => ({
      env: store.env,
      isReadOnly,
      isWriting,
    }));
    expect(trials.filter(({ env }) => env === "production")).toEqual(
      Array.from({ length: 6 }, () => ({ env: "production", isReadOnly: true, isWriting: false })),
    );
    const uploads = [...cloudflare.workers.scripts].map(([name, { versions }]) => [
      name,
      versions.list().length,
    ]);
    expect(uploads).toEqual([
      [WORKER, 2],
      ["store-orders-production", 3],
    ]);
  });
});

describe("npm run verify", () => {
  it("finds the URL of an environment", async () => {
    rollOut();
    const verified = await runInProcess(verifyProgram(), ["--env", "staging", "--json"]);
    expect(verified).toMatchObject({ status: 0, stderr: "" });
    expect(JSON.parse(verified.stdout)).toEqual({ url: `https://${HOST}`, ...KEPT });
    cloudflare.workers.domains.set(DOMAIN, WORKER);
    const again = await runInProcess(verifyProgram(), ["--env", "staging", "--json"]);
    expect(JSON.parse(again.stdout)).toMatchObject({ url: `https://${DOMAIN}` });
  });
});

describe("the command line", () => {
  it("exits with status 2 without an environment", async () => {
    const command = ["src/operator/main.ts", "deploy"];
    const { status, stdout, stderr } = await runCommand(process.execPath, command, { env: {} });
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(/^error: /);
  });

  it.each([
    [["--env", "staging", "--create"], "say where the databases shall live"],
    [["--env", "staging", "--patience", "x"], "expected whole seconds"],
    [["--env", "staging", "--location", "weur"], "go with --create"],
    [["--env", "staging", "--create", "--location", "mars"], "Allowed choices"],
    [["--env", "staging", "--domain", "https://x.example"], "expected a hostname"],
  ])("refuses %j", async (args, message) => {
    const { status, stderr } = await deploy(...args);
    expect(status).toBe(2);
    expect(stderr).toContain(message);
  });
});
