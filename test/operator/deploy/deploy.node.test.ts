import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isSecret } from "../../../src/worker/api-keys/secret.ts";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import { describeCommit } from "../../../src/operator/deploy/checks.ts";
import { openApiDocument } from "../../../src/worker/openapi/document.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import type { FakeD1 } from "./fake-d1.ts";
import { FakeVersions } from "./fake-versions.ts";
import { ApiError } from "./route.ts";
import { runCommand } from "./run-command.ts";
import type { Outcome } from "./run-command.ts";

const WORKER = "store-orders-staging";
const ADDRESS = `https://${WORKER}.example.workers.dev`;

let cloudflare: FakeCloudflare;
beforeEach(async () => {
  cloudflare = new FakeCloudflare();
  await cloudflare.start();
});
afterEach(() => cloudflare.stop());

function deploy(...args: string[]): Promise<Outcome> {
  const redirect = `--import=${new URL("redirect-workers-dev.ts", import.meta.url).href}`;
  return runCommand(process.execPath, [redirect, "src/operator/main.ts", "deploy", ...args], {
    env: { ...cloudflare.environment, FAKE_WORKERS_DEV: cloudflare.origin },
  });
}

/** Types the command that a message names, as the operator would, and what is added to it. */
function typeCommand(message: string, pattern: RegExp, ...added: string[]): Promise<Outcome> {
  const command = pattern.exec(message)?.[0];
  if (command === undefined) throw new Error(`${pattern} is not in: ${message}`);
  const [program = "", ...args] = command.split(" ");
  return runCommand(program, [...args, ...added], { env: cloudflare.environment });
}

const ORDERS = `${WORKER}-orders`;
const KEYS = `${WORKER}-keys`;
const database = (name: string): FakeD1 => cloudflare.d1.find(name);

/** The bindings of both databases. */
const bindings = () =>
  DATABASE_NAMES.map((name) => ({
    name: BINDINGS[name],
    type: "d1",
    id: database(`${WORKER}-${name}`).uuid,
  }));

/** An account on which the service has been rolled out, maybe before the last migrations were made. */
function rollOut({ isBehind = false } = {}): void {
  cloudflare.d1.createStore("staging", { without: isBehind ? 1 : 0 });
  const versions = new FakeVersions();
  versions.deploy(versions.upload("the version before"));
  cloudflare.workers.scripts.set(WORKER, { bindings: bindings(), migrationTag: "v1", versions });
}

const lastMigration = (name: string) => database(name).migrations.at(-1)?.name ?? "";

/** wrangler makes its table of migrations, if need be, before it reads it. */
const lookAtMigrations = (name: string) => `write to ${name}`;

const allMigrations = (name: string) =>
  database(name).migrations.map((migration) => `migrate ${name}: ${migration.name}`);

describe("npm run deploy", () => {
  it("deploys first on the first roll-out, which creates the databases, then migrates them", async () => {
    const { status, stdout, stderr } = await deploy("--env", "staging");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(cloudflare.changes).toEqual([
      `create database ${ORDERS}`,
      `create database ${KEYS}`,
      `deploy ${WORKER}`,
      lookAtMigrations(ORDERS),
      ...allMigrations(ORDERS),
      lookAtMigrations(KEYS),
      ...allMigrations(KEYS),
    ]);
    expect(stdout).toContain(`Deployed staging: ${ADDRESS}`);
    const deployed = cloudflare.workers.find(WORKER);
    expect(deployed.migrationTag).toBe("v1");
    expect(deployed.bindings).toEqual(expect.arrayContaining(bindings()));
    expect(deployed.bindings).toContainEqual(
      expect.objectContaining({ name: "RATE_LIMITER", type: "durable_object_namespace" }),
    );
    expect(cloudflare.workers.find(WORKER).assets).toMatchObject({ run_worker_first: ["/v1/*"] });
    expect(cloudflare.assets.files.get("/openapi.json")).toBe(openApiDocument());
    expect(cloudflare.assets.files.get("/index.html")).toContain("<h1>");
    expect(cloudflare.workers.find(WORKER).versions.list()).toMatchObject([
      { annotations: { "workers/message": await describeCommit() } },
    ]);
    const [request] = cloudflare.workers.requests;
    expect(request?.path).toBe("/v1/store/orders");
    expect(isSecret(request?.authorization.replace("Bearer ", "") ?? "")).toBe(true);
  });

  it("leaves the Worker as it is where a migration fails, and tells the way on and back", async () => {
    rollOut({ isBehind: true });
    cloudflare.interfere = ({ path, body }) => {
      if (path.endsWith("/query") && body.includes(lastMigration(KEYS))) {
        throw new ApiError(400, 7500, "no such table: api_keys: SQLITE_ERROR");
      }
    };
    const { status, stdout, stderr } = await deploy("--env", "staging", "--skip-checks");
    expect(status).toBe(1);
    expect(cloudflare.changes).toEqual([
      lookAtMigrations(ORDERS),
      `migrate ${ORDERS}: ${lastMigration(ORDERS)}`,
      lookAtMigrations(KEYS),
    ]);
    const way =
      /Note the state of the (\w+) database \.\.\.\nThe way back to it: npm run .* --database (\w+) /g;
    const ways = [...stdout.matchAll(way)].map(([, noted, restored]) => [noted, restored]);
    expect(ways).toEqual(DATABASE_NAMES.map((name) => [name, name]));
    expect(stderr).toContain(
      'error: "Apply migrations to the keys database" failed: no such table: api_keys',
    );
    expect(stderr).toContain("Not done: Deploy the Worker; Test the deployed service.");
    expect(/restore .*/.exec(stderr)?.[0]).toContain("--database keys --bookmark ");
  });

  it("prints a way back to the state before the migrations", async () => {
    rollOut();
    cloudflare.interfere = ({ path, body }) => {
      if (path.includes(database(ORDERS).uuid) && body.includes("d1_migrations"))
        throw new ApiError(400, 7500, "out of luck");
    };
    const { stderr } = await deploy("--env", "staging", "--skip-checks");
    cloudflare.interfere = () => {};
    const { sqlite } = database(ORDERS);
    sqlite.exec("DROP TABLE orders");
    const restored = await typeCommand(stderr, /npm run time-travel -- restore .*/, "--yes");
    expect(restored).toMatchObject({ status: 0 });
    expect(sqlite.prepare("SELECT count(*) AS orders FROM orders").get()).toEqual({ orders: 0 });
  });

  it("refuses to go on where only one of the databases exists", async () => {
    cloudflare.d1.create(ORDERS);
    const { status, stderr } = await deploy("--env", "staging", "--skip-checks");
    expect(status).toBe(1);
    expect(stderr).toContain("there is no keys database, although the other one exists");
    expect(stderr).toContain("Nothing was changed.");
    expect(cloudflare.changes).toEqual([]);
  });

  it("migrates first on later roll-outs, and says what stands where the upload fails", async () => {
    rollOut({ isBehind: true });
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

  it("tells the way back where the deployed service does not work", async () => {
    rollOut();
    cloudflare.workers.answer = { status: 500, body: '{"code":"internal_error"}' };
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
    const back = await typeCommand(stderr, /npx wrangler rollback --env staging/);
    expect(back).toMatchObject({ status: 0 });
    expect(versions.describe(versions.current ?? "")).toEqual(before);
  });

  it.each([[[]], [["--env", "staging", "--patience", "x"]]])(
    "ends with status 2 for %j",
    async (args) => {
      const { status, stdout, stderr } = await deploy(...args);
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
