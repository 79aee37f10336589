import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { type RequestRecord, toDataPoint } from "../../src/worker/telemetry/request-record.ts";
import { REQUEST } from "../support/request-record.ts";

const NOW_SECONDS = 1_795_000_000;
const SECONDS = { MINUTE: 60, HOUR: 3_600 } as const;

const BANNED = { ...REQUEST, status: 429, code: "api_key_banned", remaining: 0 } as const;
/** Rows that stand for 2, 3 and 4 requests. */
const ROWS: readonly [RequestRecord, sampleInterval: number][] = [
  [{ ...REQUEST, servedBy: "replica WEUR" }, 2],
  [{ ...BANNED, represents: 3 }, 1],
  [{ ...REQUEST, keyId: null, plan: null, status: 503, degraded: "orders", region: "AMS" }, 4],
];

const HOUR = NOW_SECONDS - (NOW_SECONDS % 3_600);
const OF_KEY = { hour: HOUR, route: "/v1/store/orders", method: "GET" };
const EXPECTED: Readonly<Record<string, readonly object[]>> = {
  health: [{ requests: 9, errors: 4, degraded: 4 }],
  authenticated: [{ requests: 5, refused: 3, p95_ms: 10 }],
  traffic: [
    { hour: HOUR, plan: "", status: 503, requests: 4 },
    { hour: HOUR, plan: "free", status: 200, requests: 2 },
    { hour: HOUR, plan: "free", status: 429, requests: 3 },
  ],
  slowest: [{ route: OF_KEY.route, method: "GET", requests: 9, median_ms: 10, p99_ms: 10 }],
  refused: [{ key_id: REQUEST.keyId, plan: "free", requests: 5, refused: 3 }],
  "near a limit": [
    {
      key_id: REQUEST.keyId,
      plan: "free",
      quota_window: "minute",
      least_left: 0,
      quota: 60,
      requests: 3,
    },
  ],
  banned: [
    {
      key_id: REQUEST.keyId,
      plan: "free",
      first_seen: NOW_SECONDS,
      last_seen: NOW_SECONDS,
      requests: 3,
    },
  ],
  degraded: [
    { minute: NOW_SECONDS - (NOW_SECONDS % 60), missing: "orders", region: "AMS", requests: 4 },
  ],
  errors: [
    { region: "AMS", requests: 4, errors: 4, percent: 100 },
    { region: "FRA", requests: 5, errors: 0, percent: 0 },
  ],
  "served by": [{ served_by: "replica WEUR", requests: 2, p95_ms: 10 }],
  key: [
    { ...OF_KEY, status: 200, code: "", requests: 2, least_left: 50 },
    { ...OF_KEY, status: 429, code: "api_key_banned", requests: 3, least_left: 0 },
  ],
};

/** Translates a query to SQLite, which has neither intervals nor functions with two lists of arguments. */
function toSqlite(query: string): string {
  return query
    .replaceAll(/INTERVAL '(\d+)' (MINUTE|HOUR)/g, (_, count: string, unit: "MINUTE" | "HOUR") =>
      String(Number(count) * SECONDS[unit]),
    )
    .replaceAll(/quantileExactWeighted\(([\d.]+)\)\(/g, "quantile($1, ");
}

function openDataSet(): DatabaseSync {
  const sqlite = new DatabaseSync(":memory:");
  sqlite.function("NOW", () => NOW_SECONDS);
  sqlite.function("toStartOfInterval", (seconds, length) => {
    return Number(seconds) - (Number(seconds) % Number(length));
  });
  sqlite.aggregate<string>("quantile", {
    start: () => "[]",
    step: (seen, level, value, weight) =>
      JSON.stringify([...JSON.parse(seen), ...Array(Number(weight)).fill([value, level])]),
    result: (seen) => {
      const sorted = (JSON.parse(seen) as [number, number][]).toSorted(([a], [b]) => a - b);
      return sorted[Math.ceil((sorted[0]?.[1] ?? 0) * sorted.length) - 1]?.[0] ?? null;
    },
  });
  for (const [record, interval] of ROWS) {
    const { indexes, blobs, doubles } = toDataPoint(record);
    const names = (kind: string, values: readonly unknown[]) =>
      values.map((_, position) => `${kind}${position + 1}`);
    const columns = [
      ...names("index", indexes),
      ...names("blob", blobs),
      ...names("double", doubles),
    ];
    sqlite.exec(
      `CREATE TABLE IF NOT EXISTS store_orders_production (timestamp, _sample_interval, ${columns.join()})`,
    );
    const values = [NOW_SECONDS, interval, ...indexes, ...blobs, ...doubles];
    const places = values.map(() => "?").join();
    sqlite.prepare(`INSERT INTO store_orders_production VALUES (${places})`).run(...values);
  }
  return sqlite;
}

const QUERIES = readFileSync("docs/metrics.sql", "utf8")
  .matchAll(/^-- ([\w ]+): .*\n(SELECT [^;]*);$/gm)
  .map(([, name = "", query = ""]) => [name, query] as const)
  .toArray();

it.each(QUERIES)("docs/metrics.sql answers the question '%s' from data points", (name, query) => {
  const rows = openDataSet().prepare(toSqlite(query)).all();
  expect(rows.map((row) => ({ ...row }))).toEqual(EXPECTED[name]);
});

it("docs/metrics.sql has all the questions", () => {
  expect(QUERIES.map(([name]) => name)).toEqual(Object.keys(EXPECTED));
});
