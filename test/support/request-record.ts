import type { RequestRecord } from "../../src/worker/telemetry/request-record.ts";

/** The record of an admitted request. */
export const REQUEST: RequestRecord = {
  event: "request",
  requestId: "1",
  keyId: "key_petspetspetspets",
  method: "GET",
  route: "/v1/store/orders",
  status: 200,
  code: null,
  plan: "free",
  window: "minute",
  limit: 60,
  remaining: 50,
  durationMs: 10,
  represents: 1,
  region: "FRA",
  country: "DE",
  degraded: null,
  servedBy: null,
};
