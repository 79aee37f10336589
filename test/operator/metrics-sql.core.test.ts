import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { type RequestRecord, toDataPoint } from "../../src/worker/telemetry/request-record.ts";
import { REQUEST } from "../support/request-record.ts";

const NOW_SECONDS = 1_795_000_000;
const HOUR = NOW_SECONDS - (NOW_SECONDS % 3_600);
const MINUTE = NOW_SECONDS - (NOW_SECONDS % 60);

const BANNED = { ...REQUEST, status: 429, code: "api_key_banned", remaining: 0 } as const;
/** Rows that stand for 2, 3 and 4 requests. */
const ROWS: readonly [RequestRecord, sampleInterval: number][] = [
  [{ ...REQUEST, servedBy: "replica WEUR" }, 2],
  [{ ...BANNED, represents: 3 }, 1],
  [{ ...REQUEST, keyId: null, plan: null, status: 503, degraded: "orders", region: "AMS" }, 4],
];

const FREE = [REQUEST.keyId, "free"];
const ROUTE = ["/v1/store/orders", "GET"];
/** The answers to the questions: the names of the columns, and the rows. */
const EXPECTED = {
  health: ["requests,errors,degraded", [9, 4, 4]],
  authenticated: ["requests,refused,p95_ms", [5, 3, 10]],
  traffic: [
    "hour,plan,status,requests",
    [HOUR, "", 503, 4],
    [HOUR, "free", 200, 2],
    [HOUR, "free", 429, 3],
  ],
  slowest: ["route,method,requests,median_ms,p99_ms", [...ROUTE, 9, 10, 10]],
  refused: ["key_id,plan,requests,refused", [...FREE, 5, 3]],
  "near a limit": [
    "key_id,plan,quota_window,least_left,quota,requests",
    [...FREE, "minute", 0, 60, 3],
  ],
  banned: ["key_id,plan,first_seen,last_seen,requests", [...FREE, NOW_SECONDS, NOW_SECONDS, 3]],
  degraded: ["minute,missing,region,requests", [MINUTE, "orders", "AMS", 4]],
  errors: ["region,requests,errors,percent", ["AMS", 4, 4, 100], ["FRA", 5, 0, 0]],
  "served by": ["served_by,requests,p95_ms", ["replica WEUR", 2, 10]],
  key: [
    "hour,route,method,status,code,requests,least_left",
    [HOUR, ...ROUTE, 200, "", 2, 50],
    [HOUR, ...ROUTE, 429, "api_key_banned", 3, 0],
  ],
};

/** Translates a query to SQLite: it has no intervals, and functions with one list of arguments. */
function toSqlite(query: string): string {
  return query
    .replaceAll(/INTERVAL '(\d+)' MINUTE/g, "$1 * 60")
    .replaceAll(/INTERVAL '(\d+)' HOUR/g, "$1 * 3600")
    .replaceAll(/quantileExactWeighted\(([\d.]+)\)\(/g, "quantile($1, ");
}

function openDataSet(): DatabaseSync {
  const sqlite = new DatabaseSync(":memory:");
  sqlite.function("NOW", () => NOW_SECONDS);
  sqlite.function("toStartOfInterval", (seconds, length) => {
    return Number(seconds) - (Number(seconds) % Number(length));
  });
  // Returns the largest value: all requests took equally long.
  const step = (most: number, ...[, value]: unknown[]) => Math.max(most, Number(value));
  sqlite.aggregate<number>("quantile", { start: 0, step, varargs: true });
  for (const [record, interval] of ROWS) {
    const { indexes, blobs, doubles } = toDataPoint(record);
    const kinds = Object.entries({ index: indexes, blob: blobs, double: doubles });
    const names = kinds.flatMap(([kind, all]) => all.map((_, index) => `${kind}${index + 1}`));
    const columns = ["timestamp", "_sample_interval", ...names].join();
    sqlite.exec(`CREATE TABLE IF NOT EXISTS store_orders_production (${columns})`);
    const values = [NOW_SECONDS, interval, ...indexes, ...blobs, ...doubles];
    const places = values.map(() => "?").join();
    sqlite.prepare(`INSERT INTO store_orders_production VALUES (${places})`).run(...values);
  }
  return sqlite;
}

it("docs/metrics.sql answers each question from data points", () => {
  const questions = readFileSync("docs/metrics.sql", "utf8").matchAll(
    /^-- ([\w ]+): .*\n(SELECT [^;]*);$/gm,
  );
  const dataSet = openDataSet();
  const answers = questions.map(([, name = "", query = ""]) => {
    const rows = dataSet.prepare(toSqlite(query)).all();
    return [name, [Object.keys(rows[0] ?? {}).join(), ...rows.map((row) => Object.values(row))]];
  });
  expect(Object.fromEntries(answers)).toEqual(EXPECTED);
});
