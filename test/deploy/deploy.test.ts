import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isKey } from "../../src/api-keys/key.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
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
  return runCommand(process.execPath, [redirect, "src/cli/deploy.ts", ...args], {
    env: { ...cloudflare.environment, FAKE_WORKERS_DEV: cloudflare.origin },
  });
}

/** An account on which the service has been rolled out. */
function rollOut(): void {
  cloudflare.d1.create(WORKER);
  cloudflare.d1.find(WORKER).migrate();
  const bindings = [{ name: "DB", type: "d1", id: cloudflare.d1.find(WORKER).uuid }];
  cloudflare.workers.scripts.set(WORKER, { bindings, migrationTag: "v1", versionId: "1" });
}

/** Takes the last migration back, so that the database is one behind the code. */
function unmigrate(): void {
  const { sqlite } = cloudflare.d1.find(WORKER);
  const triggers = sqlite.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").all();
  for (const { name } of triggers) sqlite.exec(`DROP TRIGGER "${String(name)}"`);
  sqlite.exec("DELETE FROM order_list; DELETE FROM d1_migrations WHERE name LIKE '0001%'");
}

describe("npm run deploy", () => {
  it("deploys first on the first roll-out, which creates the database, then migrates", async () => {
    const { status, stdout, stderr } = await deploy("--env", "staging");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(cloudflare.changes).toEqual([
      `create database ${WORKER}`,
      `deploy ${WORKER}`,
      `write to ${WORKER}`,
      `migrate ${WORKER}: 0000_store_orders.sql`,
      `migrate ${WORKER}: 0001_order_triggers.sql`,
    ]);
    expect(stdout).toContain(`Deployed staging: ${ADDRESS}`);
    const { bindings, migrationTag } = cloudflare.workers.find(WORKER);
    expect(migrationTag).toBe("v1");
    expect(bindings).toContainEqual({
      name: "DB",
      type: "d1",
      id: cloudflare.d1.find(WORKER).uuid,
    });
    expect(bindings).toContainEqual(
      expect.objectContaining({ name: "RATE_LIMITER", type: "durable_object_namespace" }),
    );
    expect(cloudflare.workers.find(WORKER).assets).toMatchObject({ run_worker_first: ["/v1/*"] });
    expect(cloudflare.assets.files.get("/openapi.json")).toBe(openApiDocument());
    expect(cloudflare.assets.files.get("/index.html")).toContain("<h1>");
    const [request] = cloudflare.workers.requests;
    expect(request?.path).toBe("/v1/store/orders");
    expect(isKey(request?.authorization.replace("Bearer ", "") ?? "")).toBe(true);
  });

  it("leaves the Worker as it is where a migration fails, and tells the way on and back", async () => {
    rollOut();
    unmigrate();
    cloudflare.interfere = ({ path, body }) => {
      if (path.endsWith("/query") && body.includes("CREATE TRIGGER")) {
        throw new ApiError(400, 7500, "no such table: orders: SQLITE_ERROR");
      }
    };
    const { status, stderr } = await deploy("--env", "staging");
    expect(status).toBe(1);
    expect(cloudflare.changes).toEqual([`write to ${WORKER}`]);
    expect(stderr).toContain('error: "Apply migrations" failed: no such table: orders');
    expect(stderr).toContain("Not done: Deploy the Worker; Test the deployed service.");
    expect(stderr).toContain(`npx wrangler d1 time-travel restore DB --env staging --timestamp 20`);
  });

  it("migrates first on later roll-outs, and says what stands where the upload fails", async () => {
    rollOut();
    unmigrate();
    cloudflare.interfere = ({ method, path }) => {
      if (method === "POST" && path.endsWith("/versions"))
        throw new ApiError(400, 10021, "bad script");
    };
    const { status, stdout, stderr } = await deploy("--env", "staging");
    expect(status).toBe(1);
    expect(stdout).toContain("Migrate, then deploy.");
    expect(cloudflare.changes).toEqual([
      `write to ${WORKER}`,
      `migrate ${WORKER}: 0001_order_triggers.sql`,
    ]);
    expect(stderr).toContain("bad script");
    expect(stderr).toContain("the version before goes on serving, with the migrated database.");
    expect(stderr).toContain("run `npm run deploy -- --env staging` again");
  });

  it("tells the way back where the deployed service does not work", async () => {
    rollOut();
    cloudflare.workers.answer = { status: 500, body: '{"code":"internal_error"}' };
    const { status, stdout, stderr } = await deploy("--env", "staging", "--patience", "0");
    expect(status).toBe(1);
    expect(cloudflare.changes).toEqual([`write to ${WORKER}`, `deploy ${WORKER}`]);
    expect(stdout).not.toContain("Deployed");
    expect(stderr).toContain(`${ADDRESS}/v1/store/orders answers 500 instead of 401`);
    expect(stderr).toContain("npx wrangler rollback --env staging");
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
    const { status, stdout } = await deploy("--env", "production", "--dry-run");
    expect(status).toBe(0);
    expect(stdout).toContain("Dry run: nothing was changed.");
    expect(cloudflare.changes).toEqual([]);
  });
});
