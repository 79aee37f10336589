import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import type { Config } from "../../rules/config.ts";
import { Outage } from "../outage.ts";
import { AnonymousSample } from "../telemetry/anonymous-sample.ts";
import { recordRequest, toDataPoint } from "../telemetry/request-record.ts";

/**
 * Records each request after its response is ready. A record is a line of JSON in the log and, if
 * the environment has an Analytics Engine data set, a data point. Requests without a valid key are
 * sampled, because anybody can send a flood of them. A failure to record does not fail the request.
 */
export function observeRequests({ requestLog }: Config) {
  const telemetry = new Outage({ began: "telemetry_failing", ended: "telemetry_recovered" });
  const sample = new AnonymousSample();
  return createMiddleware<AppEnv>(async function observeRequestsMiddleware(c, next) {
    const startedMs = Date.now();
    await next();
    if (requestLog === "none" && c.env.ANALYTICS === undefined) return;
    const { apiKey }: Partial<AppEnv["Variables"]> = c.var;
    const isSampled = apiKey === undefined && c.res.status < 500;
    const represents = isSampled ? sample.count(c.res.status, Date.now()) : 1;
    if (represents === null) return;
    try {
      const record = recordRequest(c, startedMs, represents);
      const hasFailed = record.status >= 500 || record.degraded !== null;
      const isLogged = requestLog === "all" || (requestLog === "errors" && hasFailed);
      if (isLogged) console.log(JSON.stringify(record));
      c.env.ANALYTICS?.writeDataPoint(toDataPoint(record));
      telemetry.answered();
    } catch (error) {
      telemetry.failed({ requestId: c.get("requestId"), error });
    }
  });
}
