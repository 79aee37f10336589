import { DatabaseSync } from "node:sqlite";
import { type RequestRecord, toDataPoint } from "../../../src/worker/telemetry/request-record.ts";
import type { Routes } from "./route.ts";

const SECONDS = { MINUTE: 60, HOUR: 3_600, DAY: 86_400 } as const;

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
  /** The usage by data set and field. A GraphQL response has it twice, in two equal groups. */
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
    for (const level of [0.5, 0.95, 0.99]) {
      // The state of an aggregate function must be a SQL value, here JSON. Without rows, a quantile
      // is NaN, which the API sends as `null`.
      this.#sqlite.aggregate<string>(`quantile${100 * level}`, {
        start: () => "[]",
        step: (seen, value, weight) =>
          JSON.stringify([...JSON.parse(seen), ...Array(Number(weight)).fill(value)]),
        result: (seen) => {
          const sorted = (JSON.parse(seen) as number[]).toSorted((a, b) => a - b);
          return sorted[Math.ceil(level * sorted.length) - 1] ?? null;
        },
      });
    }
  }

  /** Stores one data point, which represents `sampleInterval` requests. */
  write(dataSet: string, seconds: number, record: RequestRecord, sampleInterval = 1): void {
    const { indexes, blobs, doubles } = toDataPoint(record);
    const columns = ["index1", ...numbered("blob", blobs), ...numbered("double", doubles)].join();
    const values = [seconds, sampleInterval, ...indexes, ...blobs, ...doubles];
    this.#sqlite.exec(
      `CREATE TABLE IF NOT EXISTS ${dataSet} (timestamp, _sample_interval, ${columns})`,
    );
    const places = values.map(() => "?").join();
    this.#sqlite.prepare(`INSERT INTO ${dataSet} VALUES (${places})`).run(...values);
  }

  /** Returns the response to a GraphQL query, with the sums of each data set under its alias. */
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
      account[alias] = sums === undefined ? [] : [{ sum }, { sum }];
    }
    const { account: id = "", from = "", to = "" } = variables;
    const ofDay = Date.parse(to) - Date.parse(from) === 1_000 * SECONDS.DAY;
    // Cloudflare reports database usage only for whole hours, so a range must end on the hour.
    const isOneDay = /^\w{32}$/.test(id) && ofDay && to.endsWith(":00:00.000Z");
    return { data: { viewer: { accounts: isOneDay ? [account] : [] } }, errors: null };
  }

  /** Runs SQL. As in the real API, sums of integers are strings, because they are 64-bit. */
  #query(sql: string): object {
    const isSum = (name: string) => /^(?:requests|refused|errors|degraded)$/.test(name);
    const selected = this.#sqlite.prepare(toSqlite(sql)).all();
    const rows = selected.map((row) => Object.entries(row));
    const meta = rows[0]?.map(([name, value]) => {
      const type = typeof value === "string" ? "String" : "Float64";
      return { name, type: isSum(name) ? "UInt64" : type };
    });
    const data = rows.map((row) =>
      Object.fromEntries(
        row.map(([name, value]) => [name, isSum(name) ? String(Number(value)) : value]),
      ),
    );
    return { meta: meta ?? [], data };
  }
}

/** Translates SQL to SQLite, which has neither intervals nor functions with two lists of arguments. */
function toSqlite(sql: string): string {
  return sql
    .replace(/INTERVAL '(\d+)' (MINUTE|HOUR|DAY)/g, (_, count: string, unit: string) =>
      String(Number(count) * SECONDS[unit as keyof typeof SECONDS]),
    )
    .replace(
      /quantileExactWeighted\(([\d.]+)\)/g,
      (_, level: string) => `quantile${100 * Number(level)}`,
    );
}

function numbered(kind: string, values: readonly unknown[]): string[] {
  return values.map((_, position) => `${kind}${position + 1}`);
}
