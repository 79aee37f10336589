import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import { closedQuota } from "../../rules/limits/decision.ts";
import { reportQuota } from "../../rules/limits/quota-report.ts";
import { ApiError, methodNotAllowed } from "../errors.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { preconditionsOf } from "../preconditions.ts";

const RETRY_MS = 1_000;

/**
 * Routes `getQuota` (docs/api.md, Quota). `GET` and `HEAD` must not be counted: they succeed with full
 * windows and during a ban.
 */
export function quotaRoute(limiter: Limiter) {
  const routes = new Hono<AppEnv>().get("/", async (c) => {
    const { ifMatch } = preconditionsOf(c.req.raw.headers);
    if (ifMatch !== null && ifMatch !== "*") {
      throw new ApiError(
        "precondition_failed",
        "The quota has no entity tag, so If-Match can only be *. Repeat the request without If-Match.",
      );
    }
    const { id: keyId, plan, expiresAt } = c.get("apiKey");
    const key = c.get("limitedKey");
    const quota = await limiter.look(key, {
      objects: c.env.RATE_LIMITER,
      requestId: c.get("requestId"),
      waitUntil: (promise) => c.executionCtx.waitUntil(promise),
    });
    c.set("quota", quota ?? closedQuota(key, RETRY_MS, Date.now()));
    if (quota === null) {
      c.set("decidedBy", "nobody");
      throw new ApiError(
        "service_unavailable",
        "The limiter of this API key does not respond at the moment. Repeat the request after the time in Retry-After.",
        { "Retry-After": String(RETRY_MS / 1_000) },
      );
    }
    const body = { keyId, plan, expiresAt, ...reportQuota(quota) };
    return Response.json(body, { headers: { "Cache-Control": "no-store" } });
  });
  return routes.all("/", methodNotAllowed("GET, HEAD"));
}
