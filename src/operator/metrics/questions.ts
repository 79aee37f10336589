import { z } from "zod";
import { BLOBS, DOUBLES } from "../../worker/telemetry/request-record.ts";
import type { CloudflareApi } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../arguments.ts";

/** The Analytics Engine column for each field of a request record. */
export const COLUMNS = {
  keyId: "index1",
  ...columns("blob", BLOBS),
  ...columns("double", DOUBLES),
} as const;

function columns<Name extends string>(kind: string, names: readonly Name[]) {
  const entries = names.map((name, position) => [name, `${kind}${position + 1}`]);
  return Object.fromEntries(entries) as Record<Name, string>;
}

interface Scope {
  readonly environment: RemoteEnvironment;
  /** The length of the period whose requests are counted, in hours. */
  readonly hours: number;
  /** How many hours ago the period ends; by default 0. */
  readonly hoursAgo?: number;
  /** Counts only requests with this key. */
  readonly keyId?: string | undefined;
}

interface Question {
  /** The description in the command's help. */
  readonly asks: string;
  /** The columns, in the SQL of Workers Analytics Engine. */
  readonly select: string;
  readonly where?: string;
  /** The clauses after WHERE. A query for a single row has none. */
  readonly order?: string;
}

const { keyId, route, method, code, plan, window, region, degraded, servedBy } = COLUMNS;
const { status, durationMs, limit, remaining, represents } = COLUMNS;

/**
 * The number of requests that a row represents. Cloudflare keeps 1 of `_sample_interval` rows. Each
 * row is written for `represents` requests, or for one request if `represents` is 0.
 */
const WEIGHT = `_sample_interval * if(${represents} > 1, ${represents}, 1)`;

const REQUESTS = `SUM(${WEIGHT})`;

const requestsWhere = (condition: string): string => `SUM(if(${condition}, ${WEIGHT}, 0))`;

/** Does not weight rows by `WEIGHT`, because a quantile's weight must be an integer column. */
const quantile = (level: number): string =>
  `ROUND(quantileExactWeighted(${level})(${durationMs}, _sample_interval), 0)`;

const interval = (length: string): string => `toStartOfInterval(timestamp, INTERVAL ${length})`;

/** The queries of `npm run metrics`, by name. */
export const QUESTIONS = {
  health: {
    asks: "all requests: how many failed, and during how many a part of the service failed",
    select: `${REQUESTS} AS requests, ${requestsWhere(`${status} >= 500`)} AS errors, ${requestsWhere(`${degraded} != ''`)} AS degraded`,
  },
  authenticated: {
    asks: "requests with a valid key: how many were refused, and the response time",
    select: `${REQUESTS} AS requests, ${requestsWhere(`${status} = 429`)} AS refused, ${quantile(0.95)} AS p95_ms`,
    where: `${plan} != ''`,
  },
  traffic: {
    asks: "requests by hour, plan and status",
    select: `${interval("'1' HOUR")} AS hour, ${plan} AS plan, ${status} AS status, ${REQUESTS} AS requests`,
    order: "GROUP BY hour, plan, status ORDER BY hour, plan, status",
  },
  slowest: {
    asks: "routes by response time, in milliseconds",
    select: `${route} AS route, ${method} AS method, ${REQUESTS} AS requests, ${quantile(0.5)} AS median_ms, ${quantile(0.95)} AS p95_ms, ${quantile(0.99)} AS p99_ms`,
    order: "GROUP BY route, method ORDER BY p95_ms DESC, requests DESC",
  },
  refused: {
    asks: "the 20 keys that are refused most; anonymous: requests without a valid key",
    select: `${keyId} AS key_id, ${plan} AS plan, ${REQUESTS} AS requests, ${requestsWhere(`${status} = 429`)} AS refused`,
    order: "GROUP BY key_id, plan HAVING refused > 0 ORDER BY refused DESC LIMIT 20",
  },
  "near-limit": {
    asks: "keys that had at most a tenth of a window's requests left",
    select: `${keyId} AS key_id, ${plan} AS plan, ${window} AS quota_window, MIN(${remaining}) AS least_left, MAX(${limit}) AS quota, ${REQUESTS} AS requests`,
    where: `${plan} != '' AND ${remaining} * 10 <= ${limit}`,
    order: "GROUP BY key_id, plan, quota_window ORDER BY requests DESC LIMIT 50",
  },
  banned: {
    asks: "keys that sent requests while they were banned",
    select: `${keyId} AS key_id, ${plan} AS plan, MIN(timestamp) AS first_seen, MAX(timestamp) AS last_seen, ${REQUESTS} AS requests`,
    where: `${code} = 'api_key_banned'`,
    order: "GROUP BY key_id, plan ORDER BY requests DESC LIMIT 50",
  },
  degraded: {
    asks: "minutes in which a part of the service failed, by data centre",
    select: `${interval("'1' MINUTE")} AS minute, ${degraded} AS missing, ${region} AS region, ${REQUESTS} AS requests`,
    where: `${degraded} != ''`,
    order: "GROUP BY minute, missing, region ORDER BY minute, missing, region",
  },
  errors: {
    asks: "the share of 5xx responses for each Cloudflare data centre",
    select: `${region} AS region, ${REQUESTS} AS requests, ${requestsWhere(`${status} >= 500`)} AS errors, ROUND(100 * ${requestsWhere(`${status} >= 500`)} / ${REQUESTS}, 3) AS percent`,
    order: "GROUP BY region ORDER BY percent DESC, requests DESC",
  },
  "served-by": {
    asks: "with LIST_READS=nearest, the databases that served lists, and the response time",
    select: `${servedBy} AS served_by, ${REQUESTS} AS requests, ${quantile(0.5)} AS median_ms, ${quantile(0.95)} AS p95_ms`,
    where: `${servedBy} != ''`,
    order: "GROUP BY served_by ORDER BY requests DESC, served_by",
  },
  key: {
    asks: "the requests of one key by hour, route and status",
    select: `${interval("'1' HOUR")} AS hour, ${route} AS route, ${method} AS method, ${status} AS status, ${code} AS code, ${REQUESTS} AS requests, MIN(${remaining}) AS least_left`,
    order: "GROUP BY hour, route, method, status, code ORDER BY hour, route, method, status, code",
  },
} as const satisfies Record<string, Question>;

export type QuestionName = keyof typeof QUESTIONS;

/** Returns the SQL of a query. Does not escape `keyId`, so the caller must validate it. */
export function toSql(
  name: QuestionName,
  { environment, hours, hoursAgo = 0, keyId: id }: Scope,
): string {
  const { select, where, order }: Question = QUESTIONS[name];
  const conditions = [
    `timestamp > NOW() - INTERVAL '${hours + hoursAgo}' HOUR`,
    hoursAgo > 0 && `timestamp <= NOW() - INTERVAL '${hoursAgo}' HOUR`,
    where,
    id !== undefined && `${keyId} = '${id}'`,
  ].filter(Boolean);
  return [
    `SELECT ${select}`,
    `FROM store_orders_${environment}`,
    `WHERE ${conditions.join(" AND ")}`,
    ...(order === undefined ? [] : [order]),
  ].join("\n");
}

const answerSchema = z.object({
  meta: z.array(z.object({ name: z.string(), type: z.string() })),
  data: z.array(z.record(z.string(), z.union([z.string(), z.number(), z.null()]))),
});

/**
 * Runs a statement on Workers Analytics Engine. Returns rows with columns in the statement's
 * order. Converts 64-bit integers to numbers, because the API sends them as strings.
 */
export async function querySqlApi(api: CloudflareApi, sql: string) {
  const path = `${api.account}/analytics_engine/sql`;
  const { meta, data } = await api.query(path, answerSchema, sql);
  return data.map((row) =>
    Object.fromEntries(
      meta.map(({ name, type }) => {
        const value = row[name] ?? null;
        const isNumber = value !== null && /^(?:U?Int|Float)/.test(type);
        return [name, isNumber ? Number(value) : value];
      }),
    ),
  );
}
