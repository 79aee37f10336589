import { DatabaseSync, type StatementSync } from "node:sqlite";
import { type RequestRecord, toDataPoint } from "../../../src/worker/telemetry/request-record.ts";
import { ApiError, type Routes } from "./route.ts";

const SECONDS = { MINUTE: 60, HOUR: 3_600, DAY: 86_400 } as const;

const COLUMNS = ["index1", ...numbered("blob", 20), ...numbered("double", 20)];

interface Weighted {
  readonly level: number;
  readonly value: number;
  readonly weight: number;
}

/** An admitted request. */
export const REQUEST: RequestRecord = {
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
  durationMs: 10,
  represents: 1,
  region: "FRA",
  country: "DE",
  degraded: null,
  servedBy: null,
};

/** A fake of the SQL API of Analytics Engine, on SQLite, and of the GraphQL Analytics API. */
export class FakeAnalytics {
  /** The current time for every query. */
  nowSeconds = Math.floor(Date.now() / 1_000);
  /** The sums that the GraphQL API returns, by data set and field. */
  metered: Readonly<Record<string, Readonly<Record<string, number>>>> = {};
  readonly #sqlite = new DatabaseSync(":memory:");

  readonly routes: Routes = {
    "POST /analytics_engine/sql": ({ body }) => Response.json(this.#query(body.toString())),
    "POST /graphql": ({ body }) => Response.json(this.#sumUp(body.toString())),
  };

  constructor() {
    this.#sqlite.function("NOW", () => this.nowSeconds);
    this.#sqlite.function("toStartOfInterval", (seconds, length) => {
      const passed = Number(seconds);
      return passed - (passed % Number(length));
    });
    // SQLite keeps the state of an aggregate function as text.
    this.#sqlite.aggregate<string>("quantileExactWeighted", {
      start: () => "[]",
      step: (seen, level, value, weight) =>
        JSON.stringify([
          ...(JSON.parse(String(seen)) as Weighted[]),
          { level: Number(level), value: Number(value), weight: Number(weight) },
        ]),
      result: (seen) => weightedQuantile(JSON.parse(seen) as Weighted[]),
    });
  }

  /** Stores one data point, which represents `sampleInterval` requests. */
  write(dataSet: string, seconds: number, record: RequestRecord, sampleInterval = 1): void {
    const columns = COLUMNS.map((name) => `${name} ${name.startsWith("double") ? "REAL" : "TEXT"}`);
    this.#sqlite.exec(
      `CREATE TABLE IF NOT EXISTS ${dataSet} (timestamp INTEGER, _sample_interval INTEGER, ${columns.join(", ")})`,
    );
    const { indexes, blobs, doubles } = toDataPoint(record);
    const values = [
      textOf(indexes[0]),
      ...Array.from({ length: 20 }, (_, position) => textOf(blobs[position])),
      ...Array.from({ length: 20 }, (_, position) => doubles[position] ?? 0),
    ];
    const places = [seconds, sampleInterval, ...values].map(() => "?").join(", ");
    this.#sqlite
      .prepare(`INSERT INTO ${dataSet} VALUES (${places})`)
      .run(seconds, sampleInterval, ...values);
  }

  clear(dataSet: string): void {
    this.#sqlite.exec(`DELETE FROM ${dataSet}`);
  }

  /** Returns the response to a GraphQL query for the sums of some data sets, by alias. */
  #sumUp(sent: string): object {
    const { query, variables } = JSON.parse(sent) as {
      query: string;
      variables: Record<string, string>;
    };
    const account: Record<string, object[]> = {};
    for (const [, alias = "", dataSet = "", fields = ""] of query.matchAll(
      /(\w+): (\w+)\(limit: \d+, filter: \{[^}]*\}\) \{ sum \{ ([\w ]+) \} \}/g,
    )) {
      const sums = this.metered[dataSet];
      const sum = Object.fromEntries(fields.split(" ").map((field) => [field, sums?.[field]]));
      account[alias] = sums === undefined ? [] : [{ sum }];
    }
    const dayMs = Date.parse(variables["to"] ?? "") - Date.parse(variables["from"] ?? "");
    const isOneDay = /^\w{32}$/.test(variables["account"] ?? "") && dayMs === 1_000 * SECONDS.DAY;
    return { data: { viewer: { accounts: isOneDay ? [account] : [] } }, errors: null };
  }

  /** As in the real API, sums of integers are strings, because they are 64-bit. */
  #query(sql: string): object {
    const rows = this.#select(toSqlite(sql));
    const isSum = (name: string) => /^(?:requests|refused|errors|degraded)$/.test(name);
    const meta = Object.entries(rows[0] ?? {}).map(([name, value]) => {
      const type = typeof value === "number" ? "Float64" : "String";
      return { name, type: isSum(name) ? "UInt64" : type };
    });
    const data = rows.map((row) => {
      const sums = Object.entries(row).filter(([name]) => isSum(name));
      return { ...row, ...Object.fromEntries(sums.map(([name, sum]) => [name, String(sum ?? 0)])) };
    });
    return { meta, data };
  }

  #select(sql: string): ReturnType<StatementSync["all"]> {
    try {
      return this.#sqlite.prepare(sql).all();
    } catch (error) {
      throw new ApiError(422, 0, (error as Error).message);
    }
  }
}

/** Translates SQL to SQLite, which has neither intervals nor functions with two lists of arguments. */
function toSqlite(sql: string): string {
  return sql
    .replace(/INTERVAL '(\d+)' (MINUTE|HOUR|DAY)/g, (_, count: string, unit: string) =>
      String(Number(count) * SECONDS[unit as keyof typeof SECONDS]),
    )
    .replace(/(quantileExactWeighted)\(([\d.]+)\)\(/g, "$1($2, ");
}

/** Without rows, a quantile is NaN, which the API sends as `null`. */
function weightedQuantile(seen: readonly Weighted[]): number | null {
  const sorted = seen.toSorted((a, b) => a.value - b.value);
  const total = sorted.reduce((sum, { weight }) => sum + weight, 0);
  let passed = 0;
  const found = sorted.find(({ level, weight }) => (passed += weight) >= level * total);
  return found?.value ?? null;
}

function textOf(value: ArrayBuffer | string | null | undefined): string {
  return typeof value === "string" ? value : "";
}

function numbered(kind: string, count: number): string[] {
  return Array.from({ length: count }, (_, position) => `${kind}${position + 1}`);
}
