import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { metricsProgram } from "../../../src/operator/metrics/program.ts";
import {
  COLUMNS,
  QUESTIONS,
  type QuestionName,
  toSql,
} from "../../../src/operator/metrics/questions.ts";
import { PROJECT_ROOT } from "../../../src/operator/wrangler.ts";
import type { RequestRecord } from "../../../src/worker/telemetry/request-record.ts";
import { runInProcess } from "../in-process.ts";
import { useFakeCloudflare } from "./fake-cloudflare.ts";
import { ApiError } from "./route.ts";
import type { Outcome } from "./run-command.ts";

const HOUR = 3_600;
/** 2026-11-21T12:00:00Z */
const NOW = 1_795_262_400;

const ZOO = "key_zoozoozoozoozooz";
const PETS = "key_petspetspetspets";

const cloudflare = useFakeCloudflare();
const { analytics } = cloudflare;

const REQUEST: RequestRecord = {
  event: "request",
  requestId: "1",
  keyId: PETS,
  method: "GET",
  route: "/v1/store/orders",
  status: 200,
  code: null,
  plan: "free",
  window: "minute",
  limit: 60,
  remaining: 50,
  durationMs: 10,
  represents: 1,
  region: "FRA",
  country: "DE",
  degraded: null,
  servedBy: null,
};
const ZOO_REQUEST = { keyId: ZOO, plan: "pro", limit: 300, remaining: 200 } as const;
const ANONYMOUS = { keyId: null, plan: null } as const;
const REFUSED = { status: 429, code: "rate_limit_exceeded", remaining: 0, durationMs: 1 } as const;

/**
 * The requests in the fake Analytics Engine; all but the first are of the last day. A sampled row
 * represents several requests.
 */
const DAY: [secondsAgo: number, sampleInterval: number, fields: Partial<RequestRecord>][] = [
  [30 * HOUR, 1, { status: 500, code: "internal_error", degraded: "limiter" }],
  [20 * HOUR, 100, { servedBy: "replica WEUR" }],
  [20 * HOUR, 10, REFUSED],
  [20 * HOUR, 5, { ...ZOO_REQUEST, durationMs: 200, servedBy: "primary ENAM" }],
  [2 * HOUR, 1, { ...ZOO_REQUEST, ...REFUSED, code: "api_key_banned" }],
  [2 * HOUR - 90, 1, { ...ZOO_REQUEST, ...REFUSED, code: "api_key_banned" }],
  [60, 3, { status: 503, code: "service_unavailable", degraded: "orders", region: "GRU" }],
  [30, 1, { degraded: "limiter", region: "GRU", method: "DELETE", remaining: 6 }],
  [10, 1, { ...ANONYMOUS, status: 401, code: "unauthorized", remaining: 3 }],
  [9, 2, { ...ANONYMOUS, ...REFUSED, represents: 100 }],
];

/** The rows that each subcommand of `npm run metrics` must return for the requests in `DAY`. */
const ANSWERS: Record<QuestionName, object[]> = {
  health: [{ requests: 322, errors: 3, degraded: 4 }],
  authenticated: [{ requests: 121, refused: 12, p95_ms: 10 }],
  traffic: [
    { hour: NOW - 20 * HOUR, plan: "free", status: 200, requests: 100 },
    { hour: NOW - 20 * HOUR, plan: "free", status: 429, requests: 10 },
    { hour: NOW - 20 * HOUR, plan: "pro", status: 200, requests: 5 },
    { hour: NOW - 2 * HOUR, plan: "pro", status: 429, requests: 2 },
    { hour: NOW - HOUR, plan: "", status: 401, requests: 1 },
    { hour: NOW - HOUR, plan: "", status: 429, requests: 200 },
    { hour: NOW - HOUR, plan: "free", status: 200, requests: 1 },
    { hour: NOW - HOUR, plan: "free", status: 503, requests: 3 },
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
    { ...near(PETS, "free"), least_left: 0, quota: 60, requests: 11 },
    { ...near(ZOO, "pro"), least_left: 0, quota: 300, requests: 2 },
  ],
  banned: [
    {
      key_id: ZOO,
      plan: "pro",
      first_seen: NOW - 2 * HOUR,
      last_seen: NOW - 2 * HOUR + 90,
      requests: 2,
    },
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
    { ...ofZoo(NOW - 20 * HOUR), status: 200, code: "", requests: 5, least_left: 200 },
    { ...ofZoo(NOW - 2 * HOUR), status: 429, code: "api_key_banned", requests: 2, least_left: 0 },
  ],
};

function route(method: string): object {
  return { route: "/v1/store/orders", method };
}

function near(keyId: string, plan: string): object {
  return { key_id: keyId, plan, quota_window: "minute" };
}

function ofZoo(hour: number): object {
  return { hour, ...route("GET") };
}

beforeAll(() => {
  analytics.nowSeconds = NOW;
  for (const [secondsAgo, sampleInterval, fields] of DAY) {
    const record = { ...REQUEST, ...fields } as RequestRecord;
    analytics.write("store_orders_production", NOW - secondsAgo, record, sampleInterval);
  }
});
afterEach(() => {
  cloudflare.interfere = () => {};
});

function metrics(args: readonly string[]): Promise<Outcome> {
  return runInProcess(metricsProgram(), args);
}

const PRODUCTION = ["--env", "production"];
const NAMES = Object.keys(QUESTIONS) as QuestionName[];

describe("npm run metrics", () => {
  it.each(NAMES)("%s counts all requests that a row stands for", async (name) => {
    const key = name === "key" ? ["--key", ZOO] : [];
    const { status, stdout, stderr } = await metrics([name, ...PRODUCTION, ...key, "--json"]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const rows = JSON.parse(stdout) as object[];
    expect(rows).toEqual(ANSWERS[name]);
    expect(Object.keys(rows[0]!)).toEqual(Object.keys(ANSWERS[name][0]!));
  });

  it("prints a table, or a sentence if there are no rows", async () => {
    const { stdout } = await metrics(["errors", ...PRODUCTION]);
    expect(stdout).toContain("GRU            4       3       75");
    expect((await metrics(["banned", ...PRODUCTION, "--hours", "1"])).stdout).toBe(
      "No matching requests.\n",
    );
  });

  it("limits the requests to the last hours, and to one key", async () => {
    const all = await metrics(["degraded", ...PRODUCTION, "--hours", "31", "--json"]);
    expect(JSON.parse(all.stdout)).toHaveLength(3);
    const one = await metrics(["refused", ...PRODUCTION, "--key", PETS, "--json"]);
    expect(JSON.parse(one.stdout)).toEqual([ANSWERS.refused[1]]);
  });

  it.each([
    [["key", ...PRODUCTION], 2, "required option '--key <id>' not specified"],
    [["traffic"], 2, "required option '--env <environment>' not specified"],
    [["traffic", "--env", "local"], 2, "Allowed choices are staging, production"],
    [["weather", ...PRODUCTION], 2, "unknown command 'weather'"],
    [["traffic", ...PRODUCTION, "--hours", "9999"], 2, "older data is not kept"],
    [["key", ...PRODUCTION, "--key", "' OR 1 --"], 2, "Expected an id such as"],
    [["traffic", "--env", "staging"], 1, "/analytics_engine/sql: no such table"],
  ])("refuses %j", async (args, status, message) => {
    const outcome = await metrics(args);
    expect(outcome.status).toBe(status);
    expect(outcome.stderr).toContain(message);
    expect(outcome.stdout).toBe("");
  });

  it("repeats the error of Cloudflare, and says what a token needs", async () => {
    cloudflare.interfere = () => {
      throw new ApiError(403, 10000, "Authentication error");
    };
    const refused = await metrics(["traffic", ...PRODUCTION]);
    expect(refused).toMatchObject({ status: 1, stdout: "" });
    expect(refused.stderr).toMatch(/Authentication error \[code: 10000\].*token's permissions/);
  });
});

it("the commands of docs/observability.md are known", async () => {
  const page = await readFile(join(PROJECT_ROOT, "docs/observability.md"), "utf8");
  const blocks = [...page.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
  const lines = blocks.join("").trim().split("\n");
  expect(lines.length).toBeGreaterThan(4);
  for (const line of lines) {
    const typed = /^npm run (?:-s )?metrics -- (?<args>[^#]+)/.exec(line)?.groups?.["args"] ?? "";
    const { status, stderr } = await metrics([...typed.trim().split(/\s+/), "--hours", "1"]);
    expect([0, 1, 3], `${line}: ${stderr}`).toContain(status);
  }
});

/** Matches the SQL functions of Analytics Engine that the statements may use. */
const FUNCTIONS = /^(?:SUM|MIN|MAX|ROUND|NOW|if|toStartOfInterval|quantileExactWeighted)$/;

describe("the statements", () => {
  it.each(NAMES)("%s has only existing functions and columns, and weighs its rows", (name) => {
    const sql = toSql(name, { environment: "production", hours: 24 });
    const called = [...sql.matchAll(/(\w+)\(/g)].map(([, name_]) => name_);
    for (const name_ of called) expect(name_).toMatch(FUNCTIONS);
    const columns = [...sql.matchAll(/\b(?:index|blob|double)\d+\b/g)].map(([column]) => column);
    for (const column of columns) expect(Object.values(COLUMNS)).toContain(column);
    expect(sql).toContain("_sample_interval");
    expect(sql).not.toMatch(/COUNT|AVG|JOIN|UNION/i);
  });

  it("and the columns are named in the documentation", async () => {
    const page = await readFile(join(PROJECT_ROOT, "docs/observability.md"), "utf8");
    for (const name of NAMES) expect(page).toContain(`\`${name}\``);
    for (const [field, column] of Object.entries(COLUMNS)) {
      expect(page).toMatch(new RegExp(`^\\| \`${field}\` +\\| \`${column}\` +\\|`, "m"));
    }
  });
});
