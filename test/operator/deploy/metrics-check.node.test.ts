import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { metricsProgram } from "../../../src/operator/metrics/program.ts";
import type { RequestRecord } from "../../../src/worker/telemetry/request-record.ts";
import { runInProcess } from "../in-process.ts";
import { redirectWorkerHosts, useFakeCloudflare } from "./fake-cloudflare.ts";
import { FakeVersions } from "./fake-versions.ts";
import { HEALTHY } from "./fake-workers-api.ts";
import { ApiError } from "./route.ts";
import { type Outcome, runCommand } from "./run-command.ts";

/** 2026-11-21T12:00:00Z */
const NOW = 1_795_262_400;

const REQUEST: RequestRecord = {
  event: "request",
  requestId: "1",
  keyId: "key_petspetspetspets",
  method: "GET",
  route: "/v1/store/orders",
  status: 200,
  code: null,
  plan: "free",
  window: "minute",
  limit: 60,
  remaining: 50,
  durationMs: 40,
  represents: 1,
  region: "FRA",
  country: "DE",
  degraded: null,
  servedBy: null,
};
const BANNED = { status: 429, code: "api_key_banned", durationMs: 900 } as const;

/** The requests of the last hour in the fake Analytics Engine; 200 of them have a key. */
const HOUR: [requests: number, fields: Partial<RequestRecord>][] = [
  [180, {}],
  [2, { status: 503, code: "service_unavailable", degraded: "orders" }],
  [3, { degraded: "limiter" }],
  [10, { ...BANNED }],
  [5, { ...BANNED, keyId: "key_zoozoozoozoozooz" }],
  [300, { keyId: null, plan: null, status: 401, code: "unauthorized" }],
];

/** The figures that `metrics check` must compute for the requests in `HOUR`. */
const VALUES = {
  errorPercent: 0.4,
  degradedPercent: 1,
  p95Ms: 900,
  refusedPercent: 7.5,
  bannedKeys: 2,
  dollarsPerDay: 12.03,
};

const cloudflare = useFakeCloudflare();
const { analytics } = cloudflare;
let folder: string;

beforeAll(() => {
  analytics.nowSeconds = NOW;
  redirectWorkerHosts(cloudflare);
  for (const env of ["staging", "production"]) {
    const versions = new FakeVersions();
    versions.deploy(versions.upload(""));
    const script = { bindings: [], migrationTag: "v1", versions };
    cloudflare.workers.scripts.set(`store-orders-${env}`, script);
  }
  folder = mkdtempSync(join(tmpdir(), "store-orders-check-"));
  for (const [requests, fields] of HOUR) {
    const record = { ...REQUEST, ...fields } as RequestRecord;
    analytics.write("store_orders_production", NOW - 60, record, requests);
  }
  const old = { ...REQUEST, status: 500, code: "internal_error" } as const;
  analytics.write("store_orders_production", NOW - 7_200, old, 1_000);
  analytics.write("store_orders_staging", NOW - 9_000, old);
});
beforeEach(() => {
  // Together these operations cost the $12.03 in VALUES: requests $3, processor time $2, calls of
  // Durable Objects 3 cents, their duration $1, and rows the rest.
  analytics.metered = {
    workersInvocationsAdaptive: { requests: 10e6, cpuTimeUs: 100e9 },
    durableObjectsInvocationsAdaptiveGroups: { requests: 0.2e6 },
    durableObjectsPeriodicGroups: { duration: 80_000, rowsWritten: 1e6 },
    d1AnalyticsAdaptiveGroups: { rowsRead: 3e9, rowsWritten: 2e6 },
  };
});
afterEach(() => {
  cloudflare.interfere = () => {};
});
afterAll(() => {
  vi.unstubAllGlobals();
  rmSync(folder, { recursive: true });
});

/**
 * Runs `metrics check` with these thresholds, for production unless `args` names an environment.
 */
function check(thresholds: string | object, ...args: string[]): Promise<Outcome> {
  const file = join(folder, "thresholds.json");
  writeFileSync(file, typeof thresholds === "string" ? thresholds : JSON.stringify(thresholds));
  const env = args.includes("--env") ? [] : ["--env", "production"];
  return runInProcess(metricsProgram(), ["check", "--thresholds", file, ...env, ...args]);
}

describe("npm run metrics -- check", () => {
  it("prints each measure, and exits with status 0 if none is above its threshold", async () => {
    const { status, stdout, stderr } = await check(VALUES);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout.trim().split("\n")).toEqual([
      "ok: /healthz answers that every part of the service responds; the threshold unhealthyAddresses is 0.",
      "ok: 500 requests, 0 in the time before, and 0 a day before; the threshold silentHours is 0.",
      "ok: the response to 0.4 % of 500 requests was 5xx; the threshold errorPercent is 0.4.",
      "ok: a part of the service failed during 1 % of 500 requests; the threshold degradedPercent is 1.",
      "ok: 95 % of the requests with a key were answered within 900 ms; the threshold p95Ms is 900.",
      "ok: 7.5 % of 200 requests with a key were refused; the threshold refusedPercent is 7.5.",
      "ok: 2 keys sent requests while they were banned; the threshold bannedKeys is 2.",
      "ok: the account used up to $12.03 in 24 hours, most of it for Worker requests; the threshold dollarsPerDay is 12.03.",
    ]);
  });

  it.each(Object.entries(VALUES))(
    "exits with status 3 if %s is above its threshold",
    async (name, value) => {
      const { status, stdout } = await check({ ...VALUES, [name]: value - 0.01 });
      expect(status).toBe(3);
      const above = stdout.split("\n").filter((line) => line.startsWith("ABOVE: "));
      expect(above).toEqual([expect.stringContaining(`threshold ${name} is`)]);
      const printed = await check({ ...VALUES, [name]: value - 0.01 }, "--json");
      expect(printed.status).toBe(3);
      expect(JSON.parse(printed.stdout)).toContainEqual(
        expect.objectContaining({ name, value, threshold: value - 0.01, isAbove: true }),
      );
    },
  );

  it("measures the last hour, or as many hours as --hours says", async () => {
    const { stdout } = await check(VALUES, "--hours", "3");
    expect(stdout).toContain("ABOVE: the response to 66.8 % of 1500 requests was 5xx");
  });

  it("finds no measure above its threshold without requests and without use", async () => {
    analytics.metered = {};
    const none = Object.fromEntries(Object.keys(VALUES).map((name) => [name, 0]));
    expect(await check(none, "--env", "staging")).toMatchObject({ status: 0, stderr: "" });
  });

  it.each([
    [90, 1],
    [25 * 60 - 30, 1],
    [150, 0],
  ])("finds silence after a request %i minutes ago: %i", async (minutes, silent) => {
    const dataSet = "store_orders_staging";
    analytics.write(dataSet, NOW - 60 * minutes, REQUEST);
    const { status, stdout } = await check(VALUES, "--env", "staging", "--json");
    analytics.clear(dataSet);
    expect(status).toBe(silent === 1 ? 3 : 0);
    expect(JSON.parse(stdout)).toContainEqual(
      expect.objectContaining({ name: "silentHours", value: silent, isAbove: silent === 1 }),
    );
  });

  it("asks /healthz at every address, or at the one of --url", async () => {
    const { answer, domains } = cloudflare.workers;
    domains.set("orders.shop.example", "store-orders-production");
    cloudflare.workers.answer = (_, { hostname }) =>
      hostname === "orders.shop.example" ? { status: 503, body: "" } : HEALTHY;
    const all = await check(VALUES);
    expect(all.status).toBe(3);
    expect(all.stdout).toContain("ABOVE: https://orders.shop.example/healthz answers 503;");
    const address = "https://store-orders-production.example.workers.dev";
    expect(await check(VALUES, "--url", address)).toMatchObject({ status: 0 });
    const none = await check(VALUES, "--url", "http://127.0.0.1:1");
    expect(none).toMatchObject({ status: 3 });
    expect(none.stdout).toMatch(/^ABOVE: http:\/\/127\.0\.0\.1:1\/healthz does not answer: /);
    cloudflare.workers.answer = answer;
    domains.clear();
  });

  it("has defaults in a file that the documents show", async () => {
    const file = readFileSync("src/operator/metrics/thresholds.json", "utf8");
    expect(readFileSync("docs/observability.md", "utf8")).toContain(`\`\`\`json\n${file}\`\`\``);
    const args = ["check", "--env", "production"];
    const { status, stdout } = await runInProcess(metricsProgram(), args);
    expect(status).toBe(0);
    for (const [name, threshold] of Object.entries(JSON.parse(file) as object)) {
      expect(stdout).toContain(`the threshold ${name} is ${threshold}.`);
    }
  });

  it.each([
    ["{", "is not JSON"],
    [{}, "errorPercent: "],
    [{ ...VALUES, errorPercent: "1" }, "errorPercent: "],
    [{ ...VALUES, bannedKeys: 50 }, "bannedKeys: "],
    [{ ...VALUES, euros: 1 }, "euros"],
  ])("refuses the thresholds %j", async (thresholds, message) => {
    const outcome = await check(thresholds);
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toContain(message);
  });

  it.each([
    ["/sql", new ApiError(422, 0, "no such table"), "/analytics_engine/sql: no such table"],
    ["/graphql", new ApiError(403, 10000, "Forbidden"), "/graphql: Forbidden [code: 10000]"],
    ["/graphql", new ApiError(200, 0, "unknown field"), "/graphql: unknown field"],
    ["/domains", new ApiError(403, 10000, "Forbidden"), "/workers/domains: Forbidden"],
  ])("exits with status 1 if %s responds with %o", async (path, error, message) => {
    cloudflare.interfere = (call) => {
      if (call.path.endsWith(path)) throw error;
    };
    const outcome = await check(VALUES);
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toContain(message);
  });
});

describe("the script of CI", () => {
  it.each([
    ["true", 1, ""],
    ["", 99, "npm ci\n"],
  ])("with CI=%j and without Chromium ends with status %i", async (CI, expected, called) => {
    const programs = {
      "apt-get": "exit 1",
      sudo: "exit 1",
      npm: 'echo "npm $*"; exit 99',
    };
    for (const [name, text] of Object.entries(programs)) {
      writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`);
      chmodSync(join(folder, name), 0o755);
    }
    // Only these programs, so that no Chromium of this machine is found.
    for (const name of ["bash", "dirname", "id", "sh"]) {
      const { stdout } = await runCommand("which", [name], { env: {} });
      if (!existsSync(join(folder, name))) symlinkSync(stdout.trim(), join(folder, name));
    }
    const env = { PATH: folder, CHROMIUM_PATH: "", CI };
    const { status, stdout, stderr } = await runCommand(".ci/run", [], { env });
    expect({ status, stdout }).toEqual({ status: expected, stdout: called });
    expect(stderr).toContain("chromium could not be installed");
  });
});

describe("the workflow that watches production", () => {
  const workflow = readFileSync(".github/workflows/watch.yml", "utf8");
  const script = /^ {6}- run: \|\n(?<script>(?: {10}.*\n)+)/m.exec(workflow)?.groups?.["script"];

  /**
   * Runs the shell script in the GitHub workflow watch.yml with a fake `npm`, which exits with
   * `status`, and a fake `gh`. Returns the exit status of the script and the calls of `gh`.
   */
  async function watch(status: number, openIssue: string): Promise<[number | null, string[]]> {
    const calls = join(folder, "calls");
    writeFileSync(calls, "");
    const programs = {
      npm: `[ "$*" = "run -s metrics -- check --env production" ] && echo "ABOVE: it" && exit ${status}`,
      gh: `echo "$1 $2 $3" >> ${calls}; [ "$2" = list ] && echo "${openIssue}" || true`,
    };
    for (const [name, text] of Object.entries(programs)) {
      writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`);
      chmodSync(join(folder, name), 0o755);
    }
    const PATH = `${folder}${delimiter}${process.env["PATH"]}`;
    const run = `cd ${folder}\n${script?.replaceAll(/^ {10}/gm, "") ?? "exit 99"}`;
    const outcome = await runCommand("bash", ["-e", "-c", run], { env: { PATH } });
    return [outcome.status, readFileSync(calls, "utf8").trim().split("\n")];
  }

  it("opens an issue, or comments on the open issue, only if a measure is above", async () => {
    expect(await watch(3, "")).toEqual([0, ["issue list --state", "issue create --title"]]);
    expect(await watch(3, "7")).toEqual([0, ["issue list --state", "issue comment 7"]]);
    expect(await watch(0, "")).toEqual([0, [""]]);
    expect(await watch(1, "")).toEqual([1, [""]]);
  });
});
