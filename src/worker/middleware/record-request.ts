import type { Context } from "hono";
import { routePath } from "hono/route";
import type { AppEnv } from "../app-env.ts";
import { describedWindow } from "../limit-rules/headers.ts";
import type { Degradation, RequestRecord } from "../telemetry/request-record.ts";

/**
 * The index that makes `routePath` return the route of the last handler. The handlers before it are
 * middleware.
 */
const LAST = -1;

/**
 * Returns the record of a request for the log and the Analytics Engine data set, once its response
 * is ready.
 *
 * @param startedMs Unix time in milliseconds at which the request arrived.
 * @param represents the number of requests that the record represents.
 */
export function recordRequest(
  c: Context<AppEnv>,
  startedMs: number,
  represents: number,
): RequestRecord {
  // Middleware sets these variables one after another. A middleware that responds early leaves the
  // later variables unset.
  const { requestId, apiKey, quota, errorCode, decidedBy, servedBy }: Partial<AppEnv["Variables"]> =
    c.var;
  const described = quota === undefined ? null : describedWindow(quota);
  const cf = c.req.raw.cf;
  return {
    event: "request",
    requestId: requestId ?? "",
    keyId: apiKey?.id ?? null,
    method: c.req.raw.method,
    route: routePath(c, LAST).replace(/:(\w+)/g, "{$1}"),
    status: c.res.status,
    code: errorCode ?? null,
    plan: apiKey?.plan ?? null,
    window: described?.name ?? null,
    limit: described?.limit ?? null,
    remaining: described?.remaining ?? null,
    durationMs: Math.max(0, Date.now() - startedMs),
    represents,
    region: textOrNull(cf?.colo),
    country: textOrNull(cf?.country),
    servedBy: servedBy
      ? `${servedBy.isPrimary ? "primary" : "replica"} ${servedBy.region ?? "unknown"}`
      : null,
    degraded:
      decidedBy === "nobody"
        ? "limiter"
        : degradation(decidedBy === "fallback", {
            isUnavailable: errorCode === "service_unavailable",
            isAuthenticated: apiKey !== undefined,
          }),
  };
}

/**
 * Returns the parts of the service that failed during a request. A request that is not yet
 * authenticated has queried only the keys database; afterwards it queries only the orders database.
 */
function degradation(
  usedFallback: boolean,
  { isUnavailable, isAuthenticated }: { isUnavailable: boolean; isAuthenticated: boolean },
): Degradation | null {
  if (!isUnavailable) return usedFallback ? "limiter" : null;
  if (!isAuthenticated) return "keys";
  return usedFallback ? "limiter,orders" : "orders";
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
