import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { type RequestRecord, toDataPoint } from "../../src/worker/telemetry/request-record.ts";
import { REQUEST } from "../support/request-record.ts";

const NOW = 1_795_000_000;
const HOUR = NOW - (NOW % 3_600);

/** Rows that stand for 2, 3 and 4 requests. */
const ROWS: readonly [RequestRecord, sampleInterval: number][] = [
  [{ ...REQUEST, servedBy: "replica WEUR" }, 2],
  [{ ...REQUEST, status: 429, code: "api_key_banned", remaining: 0, represents: 3 }, 1],
  [{ ...REQUEST, keyId: null, plan: null, status: 503, degraded: "orders", region: "AMS" }, 4],
];

const FREE = `${REQUEST.keyId} free`;
const LIST = "/v1/store/orders GET";
it("docs/metrics.sql answers each question from data points", () => {
  const sqlite = new DatabaseSync(":memory:");
  sqlite.function("NOW", () => NOW);
  sqlite.function("toStartOfInterval", (time, length) => {
    return Number(time) - (Number(time) % Number(length));
  });
  // All requests took equally long.
  sqlite.aggregate<number>("quantile", { start: 0, step: (_, ms) => Number(ms), varargs: true });
  for (const [record, interval] of ROWS) {
    const { indexes, blobs, doubles } = toDataPoint(record);
    const kinds = Object.entries({ index: indexes, blob: blobs, double: doubles });
    const names = kinds.flatMap(([kind, all]) => all.map((_, index) => `${kind}${index + 1}`));
    const columns = ["timestamp", "_sample_interval", ...names];
    sqlite.exec(`CREATE TABLE IF NOT EXISTS store_orders_production (${columns.join()})`);
    const insert = `INSERT INTO store_orders_production VALUES (${columns.map(() => "?").join()})`;
    sqlite.prepare(insert).run(NOW, interval, ...indexes, ...blobs, ...doubles);
  }
  // SQLite has no intervals, and functions with one list of arguments.
  const queries = readFileSync("docs/metrics.sql", "utf8")
    .replaceAll(/INTERVAL '(\d+)' MINUTE/g, "$1 * 60")
    .replaceAll(/INTERVAL '(\d+)' HOUR/g, "$1 * 3600")
    .replaceAll(/quantileExactWeighted\([\d.]+\)\(/g, "quantile(")
    .matchAll(/^-- ([\w ]+): .*\n(SELECT [^;]*);$/gm);
  const answers = queries.map(([, name = "", query = ""]) => {
    const rows = sqlite.prepare(query).all();
    return [name, rows.map((row) => Object.values(row).join(" "))];
  });
  expect(Object.fromEntries(answers)).toEqual({
    health: ["9 4 4"],
    authenticated: ["5 3 10"],
    traffic: [`${HOUR}  503 4`, `${HOUR} free 200 2`, `${HOUR} free 429 3`],
    slowest: [`${LIST} 9 10 10`],
    refused: [`${FREE} 5 3`],
    "near a limit": [`${FREE} minute 0 60 3`],
    banned: [`${FREE} ${NOW} ${NOW} 3`],
    degraded: [`${NOW - (NOW % 60)} orders AMS 4`],
    errors: ["AMS 4 4 100", "FRA 5 0 0"],
    "served by": ["replica WEUR 2 10"],
    key: [`${HOUR} ${LIST} 200  2 50`, `${HOUR} ${LIST} 429 api_key_banned 3 0`],
  });
});
