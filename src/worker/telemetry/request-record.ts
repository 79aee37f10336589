import type { Context } from "hono";
import { routePath } from "hono/route";
import { describedWindow } from "../../rules/limits/headers.ts";
import type { AppEnv } from "../app-env.ts";

/** The methods that a record names; a record repeats nothing else that a caller sent. */
const METHODS = new Set(["GET", "HEAD", "DELETE", "POST", "PUT", "PATCH", "OPTIONS"]);

/** The log fields of one request. They omit secrets, the path as sent and the client's address. */
export type RequestRecord = ReturnType<typeof recordRequest>;

/**
 * Returns the record of a request whose response headers are ready (docs/operating.md, The log).
 *
 * @param represents the number of requests that the record represents: its own and those that
 *   sampling skipped.
 */
export function recordRequest(c: Context<AppEnv>, startedMs: number, represents: number) {
  // If a middleware responds early, the variables of later middleware are not set.
  const variables: Partial<AppEnv["Variables"]> = c.var;
  const { requestId, apiKey, quota, errorCode, servedBy } = variables;
  const described = quota === undefined ? null : describedWindow(quota);
  const cf = c.req.raw.cf;
  return {
    event: "request",
    requestId: requestId ?? "",
    keyId: apiKey?.id ?? null,
    method: METHODS.has(c.req.raw.method) ? c.req.raw.method : "other",
    // The route of the last handler; those before it are middleware. `/v1/*` or `/*` for unknown paths.
    route: routePath(c, -1).replace(/:(\w+)/g, "{$1}"),
    status: c.res.status,
    code: errorCode ?? null,
    plan: apiKey?.plan ?? null,
    window: described?.name ?? null,
    limit: described?.limit ?? null,
    remaining: described?.remaining ?? null,
    // A Worker's clock advances only after I/O.
    durationMs: Math.max(0, Date.now() - startedMs),
    represents,
    // The IATA code of the Cloudflare data centre, and the client's country (ISO 3166-1 alpha-2).
    region: textOrNull(cf?.colo),
    country: textOrNull(cf?.country),
    servedBy: servedBy
      ? `${servedBy.isPrimary ? "primary" : "replica"} ${servedBy.region ?? "unknown"}`
      : null,
    degraded: degradation(variables),
  };
}

/**
 * Returns the parts of the service that failed during a request; `null` if none. `limiter`: the
 * fallback limiter decided, or the key's limiter is overloaded. `orders`, `keys`: the response is 503,
 * because before authentication a request queries only the keys database; afterwards, only the orders
 * database.
 */
function degradation({ apiKey, decidedBy, errorCode }: Partial<AppEnv["Variables"]>) {
  const usedFallback = decidedBy === "fallback";
  if (decidedBy === "nobody") return "limiter";
  if (errorCode !== "service_unavailable") return usedFallback ? "limiter" : null;
  if (apiKey === undefined) return "keys";
  return usedFallback ? "limiter,orders" : "orders";
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

/**
 * Converts a record to a data point of Workers Analytics Engine; `null` becomes `""` or -1. A data
 * point holds at most an index of 96 bytes, 20 blobs of 16 KB in total, and 20 doubles.
 */
export function toDataPoint(record: RequestRecord) {
  const { route, method, code, plan, window, region, country, degraded, servedBy } = record;
  const { status, durationMs, limit, remaining, represents } = record;
  // Add fields only at the end: stored rows contain no field names.
  const blobs = [route, method, code, plan, window, region, country, degraded, servedBy];
  const doubles = [status, durationMs, limit, remaining, represents];
  return {
    // Analytics Engine samples each index separately, so a flood of requests without a valid key does
    // not thin out the data of any key.
    indexes: [record.keyId ?? "anonymous"],
    blobs: blobs.map((value) => value ?? ""),
    doubles: doubles.map((value) => value ?? -1),
  };
}
