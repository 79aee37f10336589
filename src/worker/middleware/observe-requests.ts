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
 * Records each request after its response is ready. A record is a line of JSON in the log and, if
 * the environment has an Analytics Engine data set, a data point. Requests without a valid key are
 * sampled, because anybody can send a flood of them. A failure to record does not fail the request.
 */
export function observeRequests({ requestLog }: Config) {
  const telemetry = new Outage({ began: "telemetry_failing", ended: "telemetry_recovered" });
  // One sampler for each HTTP status, because a record represents only requests with the same
  // status.
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
      writeRecord(c, recordRequest(c, startedMs, represents), requestLog);
      telemetry.answered();
    } catch (error) {
      telemetry.failed({ requestId: c.get("requestId"), error });
    }
  });
}

function writeRecord(c: Context<AppEnv>, record: RequestRecord, requestLog: RequestLog): void {
  if (isLogged(record, requestLog)) console.log(JSON.stringify(record));
  c.env.ANALYTICS?.writeDataPoint(toDataPoint(record));
}

/**
 * Returns whether the request is sampled: it has no valid key and its response is not a 5xx. Every
 * 5xx is recorded.
 */
function isSampled(c: Context<AppEnv>): boolean {
  const apiKey: ApiKey | undefined = c.get("apiKey");
  return apiKey === undefined && c.res.status < 500;
}

function isLogged({ status, degraded }: RequestRecord, requestLog: RequestLog): boolean {
  if (requestLog === "errors") return status >= 500 || degraded !== null;
  return requestLog === "all";
}
