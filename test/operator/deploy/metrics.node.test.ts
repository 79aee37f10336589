import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { metricsProgram } from "../../../src/operator/metrics/program.ts";
import {
  COLUMNS,
  QUESTIONS,
  type QuestionName,
  toSql,
} from "../../../src/operator/metrics/questions.ts";
import type { RequestRecord } from "../../../src/worker/telemetry/request-record.ts";
import { failure, runInProcess } from "../in-process.ts";
import { readCases } from "./documents.ts";
import { REQUEST } from "./fake-analytics.ts";
import { useFakeCloudflare } from "./fake-cloudflare.ts";
import { HEALTHY } from "./fake-workers.ts";
import { ApiError } from "./route.ts";
import { type Outcome, runCommand } from "./run-command.ts";

const HOUR = 3_600;
/** 2026-11-21T12:00:00Z */
const NOW = 1_795_262_400;
/** The time of the first banned request. */
const BANNED_AT = NOW - 2 * HOUR;
const ZOO = "key_zoozoozoozoozooz";
const PETS = "key_petspetspetspets";
const PRODUCTION = ["--env", "production"];
const PAGE = readFileSync("docs/observability.md", "utf8");

const ZOO_REQUEST = { keyId: ZOO, plan: "pro", limit: 300, remaining: 200 } as const;
const ANONYMOUS = { keyId: null, plan: null } as const;
const REFUSED = { status: 429, code: "rate_limit_exceeded", remaining: 0, durationMs: 1 } as const;

/** The requests in the fake Analytics Engine; all but the first are of the last day. */
const DAY: [secondsAgo: number, sampleInterval: number, fields: Partial<RequestRecord>][] = [
  [30 * HOUR, 1, { status: 500, code: "internal_error", degraded: "limiter" }],
  [20 * HOUR, 100, { servedBy: "replica WEUR", represents: 0 }],
  [20 * HOUR, 10, REFUSED],
  [20 * HOUR, 5, { ...ZOO_REQUEST, durationMs: 200, servedBy: "primary ENAM" }],
  [2 * HOUR, 1, { ...ZOO_REQUEST, ...REFUSED, code: "api_key_banned" }],
  [2 * HOUR - 90, 1, { ...ZOO_REQUEST, ...REFUSED, code: "api_key_banned" }],
  [60, 3, { status: 500, code: "internal_error", degraded: "orders", region: "GRU" }],
  [30, 1, { degraded: "limiter", region: "GRU", method: "DELETE", remaining: 6 }],
  [10, 1, { ...ANONYMOUS, status: 401, code: "unauthorized", remaining: 3 }],
  [9, 2, { ...ANONYMOUS, ...REFUSED, represents: 100 }],
];

const route = (method: string) => ({ route: "/v1/store/orders", method });
const traffic = (hoursAgo: number, plan: string, status: number, requests: number) => ({
  hour: NOW - hoursAgo * HOUR,
  plan,
  status,
  requests,
});
const near = { quota_window: "minute", least_left: 0 };

/** The expected result of each query for `DAY`. */
const ANSWERS: Record<QuestionName, object[]> = {
  health: [{ requests: 322, errors: 3, degraded: 4 }],
  authenticated: [{ requests: 121, refused: 12, p95_ms: 10 }],
  traffic: [
    traffic(20, "free", 200, 100),
    traffic(20, "free", 429, 10),
    traffic(20, "pro", 200, 5),
    traffic(2, "pro", 429, 2),
    traffic(1, "", 401, 1),
    traffic(1, "", 429, 200),
    traffic(1, "free", 200, 1),
    traffic(1, "free", 500, 3),
  ],
  slowest: [
    { ...route("GET"), requests: 321, median_ms: 10, p95_ms: 10, p99_ms: 200 },
    { ...route("DELETE"), requests: 1, median_ms: 10, p95_ms: 10, p99_ms: 10 },
  ],
  refused: [
    { key_id: "anonymous", plan: "", requests: 201, refused: 200 },
    { key_id: PETS, plan: "free", requests: 114, refused: 10 },
    { key_id: ZOO, plan: "pro", requests: 7, refused: 2 },
  ],
  "near-limit": [
    { key_id: PETS, plan: "free", ...near, quota: 60, requests: 11 },
    { key_id: ZOO, plan: "pro", ...near, quota: 300, requests: 2 },
  ],
  banned: [
    { key_id: ZOO, plan: "pro", first_seen: BANNED_AT, last_seen: BANNED_AT + 90, requests: 2 },
  ],
  degraded: [
    { minute: NOW - 60, missing: "limiter", region: "GRU", requests: 1 },
    { minute: NOW - 60, missing: "orders", region: "GRU", requests: 3 },
  ],
  errors: [
    { region: "GRU", requests: 4, errors: 3, percent: 75 },
    { region: "FRA", requests: 318, errors: 0, percent: 0 },
  ],
  "served-by": [
    { served_by: "replica WEUR", requests: 100, median_ms: 10, p95_ms: 10 },
    { served_by: "primary ENAM", requests: 5, median_ms: 200, p95_ms: 200 },
  ],
  key: [
    { status: 200, code: "", requests: 5, least_left: 200 },
    { status: 429, code: "api_key_banned", requests: 2, least_left: 0 },
  ].map((row, index) => ({ hour: [NOW - 20 * HOUR, BANNED_AT][index], ...route("GET"), ...row })),
};

/** The values that `metrics check --hours 24` must measure for `DAY`. */
const VALUES = {
  errorPercent: 0.93,
  degradedPercent: 1.24,
  p95Ms: 10,
  refusedPercent: 9.92,
  bannedKeys: 1,
  dollarsPerDay: 12.03,
};

const cloudflare = useFakeCloudflare();
const { analytics } = cloudflare;
const folder = mkdtempSync(join(tmpdir(), "store-orders-metrics-"));

beforeAll(() => {
  cloudflare.deployService("production");
  cloudflare.deployService("staging");
  for (const [secondsAgo, sampleInterval, fields] of DAY) {
    const record = { ...REQUEST, ...fields } as RequestRecord;
    analytics.write("store_orders_production", NOW - secondsAgo, record, sampleInterval);
  }
});
beforeEach(() => {
  analytics.nowSeconds = NOW;
  // The fake reports this usage twice, which costs $12.03 in total.
  analytics.metered = {
    workersInvocationsAdaptive: { requests: 5e6, cpuTimeUs: 50e9 },
    durableObjectsInvocationsAdaptiveGroups: { requests: 0.1e6 },
    durableObjectsPeriodicGroups: { duration: 40_000, rowsWritten: 0.5e6 },
    d1AnalyticsAdaptiveGroups: { rowsRead: 1.5e9, rowsWritten: 1e6 },
  };
});
afterEach(() => {
  cloudflare.interfere = () => {};
});
afterAll(() => rmSync(folder, { recursive: true }));

function metrics(...args: readonly string[]): Promise<Outcome> {
  return runInProcess(metricsProgram(), args);
}

const NAMES = Object.keys(QUESTIONS) as QuestionName[];

describe("npm run metrics", () => {
  it.each(NAMES)("%s counts all requests that a row stands for", async (name) => {
    const key = name === "key" ? ["--key", ZOO] : [];
    const { status, stdout, stderr } = await metrics(name, ...PRODUCTION, ...key, "--json");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const rows = JSON.parse(stdout) as object[];
    expect(rows).toEqual(ANSWERS[name]);
    expect(Object.keys(rows[0] ?? {})).toEqual(Object.keys(ANSWERS[name][0] ?? {}));
    // Analytics Engine has fewer functions than the SQLite of this fake.
    const sql = toSql(name, { environment: "production", hours: 24 });
    const functions = /^(?:SUM|MIN|MAX|ROUND|NOW|if|toStartOfInterval|quantileExactWeighted)$/;
    for (const [, called] of sql.matchAll(/(\w+)\(/g)) expect(called).toMatch(functions);
  });

  it("prints a table, or a sentence if no requests are of the last hours or of a key", async () => {
    expect((await metrics("errors", ...PRODUCTION)).stdout).toContain("GRU            4       3");
    expect((await metrics("banned", ...PRODUCTION, "--hours", "1")).stdout).toBe(
      "No matching requests.\n",
    );
    const all = await metrics("degraded", ...PRODUCTION, "--hours", "31", "--json");
    expect(JSON.parse(all.stdout)).toHaveLength(3);
    const one = await metrics("refused", ...PRODUCTION, "--key", PETS, "--json");
    expect(JSON.parse(one.stdout)).toEqual([ANSWERS.refused[1]]);
  });

  it.each([
    [["key", ...PRODUCTION], "required option '--key <id>' not specified"],
    [["traffic"], "required option '--env <environment>' not specified"],
    [["traffic", ...PRODUCTION, "--hours", "2209"], "older data is not kept"],
    [["key", ...PRODUCTION, "--key", `${PETS}' OR 1 --`], "Expected an id such as"],
  ])("refuses %j", async (args, message) => {
    expect(await metrics(...args)).toEqual(failure(message, 2));
  });

  it("repeats the error of Cloudflare, and says what a token needs", async () => {
    cloudflare.interfere = () => {
      throw new ApiError(403, 10000, "Authentication error");
    };
    const advice = "check the login (`npx wrangler login`) or the token's permissions";
    expect(await metrics("traffic", ...PRODUCTION)).toEqual(
      failure(`/sql: Authentication error [code: 10000] (HTTP 403): ${advice}`),
    );
  });

  it("is as docs/observability.md says", async () => {
    const lines = readCases("docs/observability.md").flatMap(({ commands }) => commands);
    expect(lines.length).toBeGreaterThan(4);
    for (const line of lines) {
      const [, typed = ""] = /^npm run (?:-s )?metrics -- ([^#]+)/.exec(line) ?? [];
      const { status, stderr } = await metrics(...typed.trim().split(/\s+/), "--hours", "1");
      expect([0, 1, 3], `${line}: ${stderr}`).toContain(status);
    }
    for (const [field, column] of Object.entries(COLUMNS)) {
      expect(PAGE.replaceAll("\n", " ")).toContain(`\`${column}\` \`${field}\``);
    }
  });
});

/** Runs `metrics check` with these thresholds, by default for the last day in production. */
function check(thresholds: string | object, ...args: readonly string[]): Promise<Outcome> {
  const file = join(folder, "thresholds.json");
  writeFileSync(file, typeof thresholds === "string" ? thresholds : JSON.stringify(thresholds));
  return metrics("check", "--thresholds", file, ...PRODUCTION, "--hours", "24", ...args);
}

describe("npm run metrics -- check", () => {
  it("prints each measure, and exits with status 0 if none is above its threshold", async () => {
    const { status, stdout, stderr } = await check(VALUES);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout.trim().split("\n")).toEqual([
      "ok: /healthz answers that every part of the service responds; the threshold unhealthyAddresses is 0.",
      "ok: 322 requests, 1 in the time before, and 1 a day before; the threshold silentHours is 0.",
      "ok: the response to 0.93 % of 322 requests was 5xx; the threshold errorPercent is 0.93.",
      "ok: a part of the service failed during 1.24 % of 322 requests; the threshold degradedPercent is 1.24.",
      "ok: 95 % of the requests with a key were answered within 10 ms; the threshold p95Ms is 10.",
      "ok: 9.92 % of 121 requests with a key were refused; the threshold refusedPercent is 9.92.",
      "ok: 1 keys sent requests while they were banned; the threshold bannedKeys is 1.",
      "ok: the account used up to $12.03 in 24 hours, most of it for Worker requests; the threshold dollarsPerDay is 12.03.",
    ]);
  });

  it("exits with status 3 if a measure is above its threshold", async () => {
    for (const [name, value] of Object.entries(VALUES)) {
      const threshold = value - 0.01;
      const { status, stdout } = await check({ ...VALUES, [name]: threshold });
      expect(status, name).toBe(3);
      const above = stdout.split("\n").filter((line) => line.startsWith("ABOVE: "));
      expect(above).toEqual([expect.stringContaining(`threshold ${name} is`)]);
    }
  });

  it("measures the last hour by default, with the thresholds that the documents show", async () => {
    const file = readFileSync("src/operator/metrics/thresholds.json", "utf8");
    expect(PAGE).toContain(`\`\`\`json\n${file}\`\`\``);
    const { stdout } = await metrics("check", ...PRODUCTION);
    expect(stdout).toContain("the response to 1.46 % of 205 requests was 5xx");
    for (const [name, threshold] of Object.entries(JSON.parse(file) as object)) {
      expect(stdout).toContain(`the threshold ${name} is ${threshold}.`);
    }
  });

  it.each([
    [90, 1],
    [150, 0],
    [25 * 60 - 30, 1],
  ])("finds silence after a request %i minutes ago: %i", async (minutes, silent) => {
    // Moves the clock past the earlier cases, so that their requests are not counted.
    analytics.nowSeconds = NOW + 100 * HOUR * minutes;
    analytics.write("store_orders_staging", analytics.nowSeconds - 60 * minutes, REQUEST);
    analytics.metered = {};
    const none = Object.fromEntries(Object.keys(VALUES).map((name) => [name, 0]));
    const { status, stdout } = await check(none, "--env", "staging", "--hours", "1", "--json");
    expect(status).toBe(silent === 1 ? 3 : 0);
    const measures = JSON.parse(stdout) as { name: string; value: number | null }[];
    const silence = { name: "silentHours", value: silent, threshold: 0, isAbove: silent === 1 };
    expect(measures).toContainEqual(expect.objectContaining(silence));
    // If there were no requests, these measures are unknown, not zero.
    const unknown = measures.filter(({ value }) => value === null).map(({ name }) => name);
    expect(unknown).toEqual(["errorPercent", "degradedPercent", "p95Ms", "refusedPercent"]);
    const printed = await check(none, "--env", "staging", "--hours", "1");
    expect(printed.stdout).toContain(
      "unknown: there were no requests to measure; the threshold p95Ms is 0.\n",
    );
  });

  it("asks /healthz at every address, or at the one of --url", async () => {
    const { answer, domains } = cloudflare.workers;
    domains.set("orders.shop.example", "store-orders-production");
    cloudflare.workers.answer = ({ hostname }) =>
      hostname === "orders.shop.example" ? HEALTHY : { status: 503, body: "" };
    const all = await check(VALUES);
    expect(all.status).toBe(3);
    expect(all.stdout).toContain(
      "ABOVE: https://store-orders-production.example.workers.dev/healthz answers 503;",
    );
    const address = "https://orders.shop.example";
    expect(await check(VALUES, "--url", address)).toMatchObject({ status: 0 });
    const none = await check(VALUES, "--url", "http://127.0.0.1:1");
    expect(none).toMatchObject({ status: 3 });
    expect(none.stdout).toMatch(/^ABOVE: http:\/\/127\.0\.0\.1:1\/healthz does not answer: /);
    cloudflare.workers.answer = answer;
    domains.clear();
  });

  it.each([
    ["{", "is not JSON"],
    [{}, "errorPercent: "],
    [{ ...VALUES, errorPercent: "1" }, "errorPercent: "],
    [{ ...VALUES, bannedKeys: 50 }, "bannedKeys: "],
    [{ ...VALUES, euros: 1 }, "euros"],
  ])("refuses the thresholds %j", async (thresholds, message) => {
    expect(await check(thresholds)).toEqual(failure(message));
  });

  it.each([
    ["/sql", 422, "no such table"],
    ["/graphql", 403, "Forbidden"],
    ["/graphql", 200, "unknown field"],
    ["/domains", 403, "Forbidden"],
  ])("exits with status 1 if %s responds with %i %s", async (path, code, message) => {
    cloudflare.interfere = (call) => {
      if (call.path.endsWith(path)) throw new ApiError(code, 0, message);
    };
    expect(await check(VALUES)).toEqual(failure(`${path}: ${message}`));
  });
});

it("watch.yml opens an issue, or comments on the open issue, only if a measure is above", async () => {
  const workflow = readFileSync(".github/workflows/watch.yml", "utf8");
  const script = /^ {6}- run: \|\n(?<script>(?: {10}.*\n)+)/m.exec(workflow)?.groups?.["script"];

  /**
   * Runs the script of watch.yml with an `npm` that exits with `status`. Returns the exit status of
   * the script and the calls of `gh`.
   */
  async function watch(status: number, openIssue: string): Promise<[number | null, string]> {
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
    return [outcome.status, readFileSync(calls, "utf8")];
  }

  expect(await watch(3, "")).toEqual([0, "issue list --state\nissue create --title\n"]);
  expect(await watch(3, "7")).toEqual([0, "issue list --state\nissue comment 7\n"]);
  expect(await watch(0, "")).toEqual([0, ""]);
  expect(await watch(1, "")).toEqual([1, ""]);
});
