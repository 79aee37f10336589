import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isSecret } from "../../../src/worker/api-keys/secret.ts";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import { describeCommit } from "../../../src/operator/deploy/checks.ts";
import { deployProgram } from "../../../src/operator/deploy/program.ts";
import { timeTravelProgram } from "../../../src/operator/time-travel/program.ts";
import type * as Wrangler from "../../../src/operator/wrangler.ts";
import { runWrangler } from "../../../src/operator/wrangler.ts";
import { openApiDocument } from "../../../src/worker/openapi/document.ts";
import { runInProcess } from "../in-process.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import { FakeVersions } from "./fake-versions.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { ApiError } from "./route.ts";
import { runCommand } from "./run-command.ts";
import type { Outcome } from "./run-command.ts";

vi.mock("../../../src/operator/wrangler.ts", { spy: true });
const wrangler = await vi.importActual<typeof Wrangler>("../../../src/operator/wrangler.ts");

const WORKER = "store-orders-staging";
const ADDRESS = `https://${WORKER}.example.workers.dev`;

let cloudflare: FakeCloudflare;
beforeEach(async () => {
  cloudflare = new FakeCloudflare();
  await cloudflare.start();
  for (const [name, value] of Object.entries(cloudflare.environment)) vi.stubEnv(name, value);
  redirectWorkersDev();
});
afterEach(async () => {
  vi.mocked(runWrangler).mockReset();
  vi.unstubAllGlobals();
  vi.unstubAllEnvs();
  await cloudflare.stop();
});

/** Sends requests to workers.dev to the fake. */
function redirectWorkersDev(): void {
  const realFetch = globalThis.fetch;
  vi.stubGlobal("fetch", (input: string | URL, init?: RequestInit) => {
    const url = new URL(input);
    const isWorker = url.hostname.endsWith(".workers.dev");
    return realFetch(isWorker ? `${cloudflare.origin}/workers.dev${url.pathname}` : url, init);
  });
}

/** Leaves only migrations and uploads to wrangler itself, which takes seconds to start. */
function skipSlowChecks(): void {
  vi.mocked(runWrangler).mockImplementation(async (args, options) => {
    if (args.includes("--dry-run")) return { stdout: "", stderr: "" };
    const isKnown = args[1] === "execute" || args[1] === "time-travel";
    return isKnown ? runFakeWrangler(args) : wrangler.runWrangler(args, options);
  });
}

function deploy(...args: string[]): Promise<Outcome> {
  return runInProcess(deployProgram(), args);
}

/** Returns the arguments of a command that a message names. */
function argumentsIn(message: string, command: RegExp): string[] {
  const [, args] = command.exec(message) ?? [];
  if (args === undefined) throw new Error(`${command} is not in: ${message}`);
  return args.split(" ");
}

/** Makes an account with the service rolled out, with `isBehind` without the last migrations. */
function rollOut({ isBehind = false } = {}): void {
  cloudflare.d1.createStore("staging", { without: isBehind ? 1 : 0 });
  const versions = new FakeVersions();
  versions.deploy(versions.upload("the version before"));
  cloudflare.workers.scripts.set(WORKER, { bindings: bindings(), migrationTag: "v1", versions });
}

/** Returns the bindings of both databases. */
function bindings(): { name: string; type: string; id: string }[] {
  return DATABASE_NAMES.map((name) => {
    const { uuid } = cloudflare.d1.find(`${WORKER}-${name}`);
    return { name: BINDINGS[name], type: "d1", id: uuid };
  });
}

const ORDERS = `${WORKER}-orders`;
const KEYS = `${WORKER}-keys`;

const lastMigration = (database: string) =>
  cloudflare.d1.find(database).migrations.at(-1)?.name ?? "";

/** wrangler first creates its table of migrations, unless there is one. */
const lookAtMigrations = (database: string) => `write to ${database}`;

const applyMigrations = (database: string) => [
  lookAtMigrations(database),
  ...cloudflare.d1.find(database).migrations.map(({ name }) => `migrate ${database}: ${name}`),
];

describe("npm run deploy", () => {
  it("deploys first on the first roll-out, which creates the databases, then migrates", async () => {
    const { status, stdout, stderr } = await deploy("--env", "staging");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(cloudflare.changes).toEqual([
      `create database ${ORDERS}`,
      `create database ${KEYS}`,
      `deploy ${WORKER}`,
      ...applyMigrations(ORDERS),
      ...applyMigrations(KEYS),
    ]);
    expect(stdout).toContain(`Deployed staging: ${ADDRESS}`);
    const deployed = cloudflare.workers.find(WORKER);
    expect(deployed.migrationTag).toBe("v1");
    expect(deployed.bindings).toEqual(expect.arrayContaining(bindings()));
    expect(deployed.bindings).toContainEqual(
      expect.objectContaining({ name: "RATE_LIMITER", type: "durable_object_namespace" }),
    );
    expect(cloudflare.workers.find(WORKER).assets).toMatchObject({ run_worker_first: ["/v1/*"] });
    expect(cloudflare.workers.crons.get(WORKER)).toEqual(["23 * * * *"]);
    expect(cloudflare.assets.files.get("/openapi.json")).toBe(openApiDocument());
    expect(cloudflare.assets.files.get("/index.html")).toContain("<h1>");
    expect(cloudflare.workers.find(WORKER).versions.list()).toMatchObject([
      { annotations: { "workers/message": await describeCommit() } },
    ]);
    const [request] = cloudflare.workers.requests;
    expect(request?.path).toBe("/v1/store/orders");
    expect(isSecret(request?.authorization.replace("Bearer ", "") ?? "")).toBe(true);
  });

  it("leaves the Worker as it is if a migration fails, and says how to continue and go back", async () => {
    rollOut();
    skipSlowChecks();
    cloudflare.interfere = ({ path, body }) => {
      if (path.includes(cloudflare.d1.find(KEYS).uuid) && body.includes("d1_migrations")) {
        throw new ApiError(400, 7500, "no such table: api_keys: SQLITE_ERROR");
      }
    };
    const { status, stdout, stderr } = await deploy("--env", "staging", "--skip-checks");
    expect(status).toBe(1);
    cloudflare.interfere = () => {};
    expect(cloudflare.changes).toEqual([lookAtMigrations(ORDERS)]);
    for (const name of DATABASE_NAMES) {
      const way = `Note the state of the ${name} database ...\nThe way back to it: npm run time-travel`;
      expect(stdout).toContain(`${way} -- restore --env staging --database ${name} --bookmark `);
    }
    expect(stderr).toContain(
      'error: "Apply migrations to the keys database" failed: no such table: api_keys',
    );
    expect(stderr).toContain("Not done: Deploy the Worker; Test the deployed service.");

    const { sqlite } = cloudflare.d1.find(KEYS);
    sqlite.exec("DROP TABLE api_keys");
    const args = argumentsIn(stderr, /npm run time-travel -- (restore .*)/);
    const restored = await runInProcess(timeTravelProgram(), [...args, "--yes"]);
    expect(restored).toMatchObject({ status: 0, stderr: "" });
    expect(sqlite.prepare("SELECT count(*) AS keys FROM api_keys").get()).toEqual({ keys: 0 });
  });

  it("changes nothing if only one of the databases exists", async () => {
    cloudflare.d1.create(ORDERS);
    skipSlowChecks();
    const { status, stderr } = await deploy("--env", "staging", "--skip-checks");
    expect(status).toBe(1);
    expect(stderr).toContain("there is no keys database, although the other one exists");
    expect(stderr).toContain("Nothing was changed.");
    expect(cloudflare.changes).toEqual([]);
  });

  it("migrates first on later roll-outs, and says what is deployed if the upload fails", async () => {
    rollOut({ isBehind: true });
    skipSlowChecks();
    cloudflare.interfere = ({ method, path }) => {
      if (method === "POST" && path.endsWith("/versions"))
        throw new ApiError(400, 10021, "bad script");
    };
    const { status, stdout, stderr } = await deploy("--env", "staging", "--skip-checks");
    expect(status).toBe(1);
    expect(stdout).toContain("Migrate, then deploy.");
    expect(cloudflare.changes).toEqual([
      lookAtMigrations(ORDERS),
      `migrate ${ORDERS}: ${lastMigration(ORDERS)}`,
      lookAtMigrations(KEYS),
      `migrate ${KEYS}: ${lastMigration(KEYS)}`,
    ]);
    expect(stderr).toContain("bad script");
    expect(stderr).toContain("the version before goes on serving, with the migrated databases.");
    expect(stderr).toContain("run `npm run deploy -- --env staging` again");
  });

  it("says how to go back if the deployed service does not work", async () => {
    rollOut();
    skipSlowChecks();
    cloudflare.workers.answer = () => ({ status: 500, body: '{"code":"internal_error"}' });
    const { status, stdout, stderr } = await deploy(
      "--env",
      "staging",
      "--skip-checks",
      "--patience",
      "0",
    );
    expect(status).toBe(1);
    expect(cloudflare.changes).toEqual([
      lookAtMigrations(ORDERS),
      lookAtMigrations(KEYS),
      `deploy ${WORKER}`,
    ]);
    expect(stdout).not.toContain("Deployed");
    expect(stderr).toContain(`${ADDRESS}/v1/store/orders answers 500 instead of 401`);
    const { versions } = cloudflare.workers.find(WORKER);
    const before = versions.list().at(-1);
    expect(versions.describe(versions.current ?? "")).not.toEqual(before);
    await wrangler.runWrangler(argumentsIn(stderr, /npx wrangler (rollback --env staging)/));
    expect(versions.describe(versions.current ?? "")).toEqual(before);
  });

  it.each([[[]], [["--env", "staging", "--patience", "x"]]])(
    "ends with status 2 for %j",
    async (args) => {
      const command = ["src/operator/main.ts", "deploy", ...args];
      const { status, stdout, stderr } = await runCommand(process.execPath, command, { env: {} });
      expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
      expect(stderr).toMatch(/^error: /);
    },
  );

  it("changes nothing in a dry run, which needs no account", async () => {
    const { status, stdout } = await deploy("--env", "production", "--dry-run", "--skip-checks");
    expect(status).toBe(0);
    expect(stdout).toContain("Dry run: nothing was changed.");
    expect(stdout).not.toContain("committed");
    expect(cloudflare.changes).toEqual([]);
  });
});
