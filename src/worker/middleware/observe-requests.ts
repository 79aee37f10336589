import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type { ApiKey } from "../api-keys/api-key.ts";
import type { AppEnv } from "../app-env.ts";
import type { Config, RequestLog } from "../config.ts";
import { Outage } from "../outage.ts";
import { AnonymousSample } from "../telemetry/anonymous-sample.ts";
import { toDataPoint } from "../telemetry/data-point.ts";
import { recordRequest } from "./record-request.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";

/**
 * Records each request once its answer is decided: a line of JSON in the log, and a data point if
 * the environment has a data set. A failure to do so never reaches the caller. A flood of requests
 * without a valid key is sampled.
 */
export function observeRequests({ requestLog }: Config) {
  const lost = new Outage({ began: "telemetry_failing", ended: "telemetry_recovered" });
  // Apart, because a record of one status cannot stand for requests of another.
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
    const represents = isSampled(c) ? sampleOf(c.res.status).count(Date.now()) : 1;
    if (represents === null) return;
    try {
      tell(c, recordRequest(c, startedMs, represents), requestLog);
      lost.answered();
    } catch (error) {
      lost.failed({ requestId: c.get("requestId"), error });
    }
  });
}

function tell(c: Context<AppEnv>, record: RequestRecord, requestLog: RequestLog): void {
  if (isLogged(record, requestLog)) console.log(JSON.stringify(record));
  c.env.ANALYTICS?.writeDataPoint(toDataPoint(record));
}

/** Whether anybody can cause any number of such requests. Our own faults are recorded each. */
function isSampled(c: Context<AppEnv>): boolean {
  const apiKey: ApiKey | undefined = c.get("apiKey");
  return apiKey === undefined && c.res.status < 500;
}

function isLogged({ status, degraded }: RequestRecord, requestLog: RequestLog): boolean {
  if (requestLog === "errors") return status >= 500 || degraded !== null;
  return requestLog === "all";
}
