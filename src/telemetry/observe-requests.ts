import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type { ApiKey } from "../api-keys/api-key.ts";
import type { AppEnv } from "../app-env.ts";
import type { Config, RequestLog } from "../config.ts";
import { Outage } from "../outage.ts";
import { toDataPoint } from "./data-point.ts";
import { recordRequest } from "./record-request.ts";
import type { RequestRecord } from "./request-record.ts";

/**
 * Tells of each request, once its answer is decided: a line of JSON in the log, and a data point
 * where the environment has a data set. Whatever fails in doing so never reaches the caller.
 *
 * @param database is told when the database has answered.
 */
export function observeRequests({ requestLog }: Config, database: Outage) {
  const lost = new Outage({ began: "telemetry_failing", ended: "telemetry_recovered" });
  return createMiddleware<AppEnv>(async function observeRequestsMiddleware(c, next) {
    const startedMs = Date.now();
    await next();
    if (isFromDatabase(c)) database.answered();
    if (requestLog === "none" && c.env.ANALYTICS === undefined) return;
    try {
      tell(c, startedMs, requestLog);
      lost.answered();
    } catch (error) {
      lost.failed({ requestId: c.get("requestId"), error });
    }
  });
}

function tell(c: Context<AppEnv>, startedMs: number, requestLog: RequestLog): void {
  const record = recordRequest(c, startedMs);
  if (isLogged(record, requestLog)) console.log(JSON.stringify(record));
  c.env.ANALYTICS?.writeDataPoint(toDataPoint(record));
}

/** Whether the answer is one that only the database can have given. */
function isFromDatabase(c: Context<AppEnv>): boolean {
  const apiKey: ApiKey | undefined = c.get("apiKey");
  return apiKey !== undefined && (c.res.status < 400 || c.res.status === 409);
}

function isLogged({ status, degraded }: RequestRecord, requestLog: RequestLog): boolean {
  if (requestLog === "errors") return status >= 500 || degraded !== null;
  return requestLog === "all";
}
