import { COLUMNS } from "../../worker/telemetry/columns.ts";
import type { RemoteEnvironment } from "../environment.ts";

/** The requests that a question is about. */
interface Scope {
  readonly environment: RemoteEnvironment;
  /** The last hours to include. */
  readonly hours: number;
  /** Only requests of this key; needed for the question `key`. */
  readonly keyId?: string;
}

interface Question {
  readonly asks: string;
  /** The columns, in the SQL of Workers Analytics Engine. */
  readonly select: string;
  readonly where?: string;
  /** The clauses after WHERE; none for a single row. */
  readonly order?: string;
}

const { keyId, route, method, code, plan, window, region, degraded } = COLUMNS;
const { status, durationMs, limit, remaining, represents } = COLUMNS;

/**
 * The number of requests that a row stands for: Cloudflare samples rows, and the service samples
 * requests without a valid key. Rows older than the column `represents` have zero in it.
 */
const WEIGHT = `_sample_interval * if(${represents} > 1, ${represents}, 1)`;

const REQUESTS = `SUM(${WEIGHT})`;

const requestsWhere = (condition: string): string => `SUM(if(${condition}, ${WEIGHT}, 0))`;

/** Weighs by Cloudflare's sampling only, because the weight has to be an integer column. */
const quantile = (level: number): string =>
  `ROUND(quantileExactWeighted(${level})(${durationMs}, _sample_interval), 0)`;

const interval = (length: string): string => `toStartOfInterval(timestamp, INTERVAL ${length})`;

/** The questions of `npm run metrics`, by name. docs/observability.md has the same statements. */
export const QUESTIONS = {
  health: {
    asks: "all requests: how many failed, and how many met a part that did not answer",
    select: `${REQUESTS} AS requests, ${requestsWhere(`${status} >= 500`)} AS errors, ${requestsWhere(`${degraded} != ''`)} AS degraded`,
  },
  authenticated: {
    asks: "requests with a valid key: how many were refused, and the time until the answer",
    select: `${REQUESTS} AS requests, ${requestsWhere(`${status} = 429`)} AS refused, ${quantile(0.95)} AS p95_ms`,
    where: `${plan} != ''`,
  },
  traffic: {
    asks: "requests by hour, plan and status",
    select: `${interval("'1' HOUR")} AS hour, ${plan} AS plan, ${status} AS status, ${REQUESTS} AS requests`,
    order: "GROUP BY hour, plan, status ORDER BY hour, plan, status",
  },
  slowest: {
    asks: "routes by the time until the answer, in milliseconds",
    select: `${route} AS route, ${method} AS method, ${REQUESTS} AS requests, ${quantile(0.5)} AS median_ms, ${quantile(0.95)} AS p95_ms, ${quantile(0.99)} AS p99_ms`,
    order: "GROUP BY route, method ORDER BY p95_ms DESC, requests DESC",
  },
  refused: {
    asks: "the 20 keys that are refused most; anonymous: requests without a valid key",
    select: `${keyId} AS key_id, ${plan} AS plan, ${REQUESTS} AS requests, ${requestsWhere(`${status} = 429`)} AS refused`,
    order: "GROUP BY key_id, plan HAVING refused > 0 ORDER BY refused DESC LIMIT 20",
  },
  "near-limit": {
    asks: "keys that had a tenth of a window left, or less",
    select: `${keyId} AS key_id, ${plan} AS plan, ${window} AS quota_window, MIN(${remaining}) AS least_left, MAX(${limit}) AS quota, ${REQUESTS} AS requests`,
    where: `${plan} != '' AND ${remaining} * 10 <= ${limit}`,
    order: "GROUP BY key_id, plan, quota_window ORDER BY requests DESC LIMIT 50",
  },
  banned: {
    asks: "keys that asked while they were banned",
    select: `${keyId} AS key_id, ${plan} AS plan, MIN(timestamp) AS first_seen, MAX(timestamp) AS last_seen, ${REQUESTS} AS requests`,
    where: `${code} = 'api_key_banned'`,
    order: "GROUP BY key_id, plan ORDER BY requests DESC LIMIT 50",
  },
  degraded: {
    asks: "minutes in which something did not answer, and where",
    select: `${interval("'1' MINUTE")} AS minute, ${degraded} AS missing, ${region} AS region, ${REQUESTS} AS requests`,
    where: `${degraded} != ''`,
    order: "GROUP BY minute, missing, region ORDER BY minute, missing, region",
  },
  errors: {
    asks: "the share of 5xx by Cloudflare's data centre",
    select: `${region} AS region, ${REQUESTS} AS requests, ${requestsWhere(`${status} >= 500`)} AS errors, ROUND(100 * ${requestsWhere(`${status} >= 500`)} / ${REQUESTS}, 3) AS percent`,
    order: "GROUP BY region ORDER BY percent DESC, requests DESC",
  },
  key: {
    asks: "what one key did, by hour",
    select: `${interval("'1' HOUR")} AS hour, ${route} AS route, ${method} AS method, ${status} AS status, ${code} AS code, ${REQUESTS} AS requests, MIN(${remaining}) AS least_left`,
    order: "GROUP BY hour, route, method, status, code ORDER BY hour, route, method, status, code",
  },
} as const satisfies Record<string, Question>;

export type QuestionName = keyof typeof QUESTIONS;

/** Returns the SQL of a question. The caller checks the key's id, which the SQL quotes as it is. */
export function toSql(name: QuestionName, { environment, hours, keyId: id }: Scope): string {
  const { select, where, order }: Question = QUESTIONS[name];
  const conditions = [
    `timestamp > NOW() - INTERVAL '${hours}' HOUR`,
    ...(where === undefined ? [] : [where]),
    ...(id === undefined ? [] : [`${keyId} = '${id}'`]),
  ];
  return [
    `SELECT ${select}`,
    `FROM store_orders_${environment}`,
    `WHERE ${conditions.join(" AND ")}`,
    ...(order === undefined ? [] : [order]),
  ].join("\n");
}
