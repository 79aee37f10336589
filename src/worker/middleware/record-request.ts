import type { Context } from "hono";
import { routePath } from "hono/route";
import type { AppEnv } from "../app-env.ts";
import { describedWindow } from "../limits/headers.ts";
import type { Degradation, RequestRecord } from "../telemetry/request-record.ts";

/** The index of the last handler of a path; the handlers before it are middleware. */
const LAST = -1;

/**
 * Describes an answered request for the log and the data set.
 *
 * @param startedMs Unix time in milliseconds.
 * @param represents the number of requests that the record stands for.
 */
export function recordRequest(
  c: Context<AppEnv>,
  startedMs: number,
  represents: number,
): RequestRecord {
  // Middleware sets these one after another, and may answer before all are set.
  const { requestId, apiKey, quota, errorCode, limiter }: Partial<AppEnv["Variables"]> = c.var;
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
    degraded: limiter?.isOverloaded
      ? "limiter"
      : degradation(limiter?.usedFallback ?? false, {
          isUnavailable: errorCode === "service_unavailable",
          isAuthenticated: apiKey !== undefined,
        }),
  };
}

/** A request asks the keys database until it is authenticated, and the orders database from then on. */
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
