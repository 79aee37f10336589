import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { routePath } from "hono/route";
import type { AppEnv } from "../app-env.ts";
import type { Config } from "../../rules/config.ts";
import { describedWindow } from "../../rules/limits/headers.ts";
import { Outage } from "../outage.ts";
import { AnonymousSample } from "../telemetry/anonymous-sample.ts";
import { type Degradation, type RequestRecord, toDataPoint } from "../telemetry/request-record.ts";

/** The methods that a record names; a record repeats nothing else that a caller sent. */
const METHODS = new Set(["GET", "HEAD", "DELETE", "POST", "PUT", "PATCH", "OPTIONS"]);

/**
 * Records each request after its response is ready. A record is a line of JSON in the log and, if
 * the environment has an Analytics Engine data set, a data point. Requests without a valid key are
 * sampled, because anybody can send a flood of them. A failure to record does not fail the request.
 */
export function observeRequests({ requestLog }: Config) {
  const telemetry = new Outage({ began: "telemetry_failing", ended: "telemetry_recovered" });
  // Each HTTP status has its own sample, because a record also represents skipped requests.
  const samples = new Map<number, AnonymousSample>();
  const sampleOf = (status: number): AnonymousSample => {
    const sample = samples.get(status) ?? new AnonymousSample();
    samples.set(status, sample);
    return sample;
  };
  return createMiddleware<AppEnv>(async function observeRequestsMiddleware(c, next) {
    const startedMs = Date.now();
    await next();
    if (requestLog === "none" && c.env.ANALYTICS === undefined) return;
    const { apiKey }: Partial<AppEnv["Variables"]> = c.var;
    const isSampled = apiKey === undefined && c.res.status < 500;
    const represents = isSampled ? sampleOf(c.res.status).count(Date.now()) : 1;
    if (represents === null) return;
    try {
      const record = recordRequest(c, startedMs, represents);
      if (isLogged(record, requestLog)) console.log(JSON.stringify(record));
      c.env.ANALYTICS?.writeDataPoint(toDataPoint(record));
      telemetry.answered();
    } catch (error) {
      telemetry.failed({ requestId: c.get("requestId"), error });
    }
  });
}

function isLogged({ status, degraded }: RequestRecord, requestLog: Config["requestLog"]): boolean {
  if (requestLog === "errors") return status >= 500 || degraded !== null;
  return requestLog === "all";
}

function recordRequest(c: Context<AppEnv>, startedMs: number, represents: number): RequestRecord {
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
    // The route of the last handler; those before it are middleware.
    route: routePath(c, -1).replace(/:(\w+)/g, "{$1}"),
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
    degraded: degradation(variables),
  };
}

/**
 * Returns the parts of the service that failed during a request; `null` if none. Before
 * authentication, a request queries only the keys database; afterwards, only the orders database.
 */
function degradation({
  apiKey,
  decidedBy,
  errorCode,
}: Partial<AppEnv["Variables"]>): Degradation | null {
  const usedFallback = decidedBy === "fallback";
  if (decidedBy === "nobody") return "limiter";
  if (errorCode !== "service_unavailable") return usedFallback ? "limiter" : null;
  if (apiKey === undefined) return "keys";
  return usedFallback ? "limiter,orders" : "orders";
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
