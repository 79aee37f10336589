import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import { closedQuota } from "../../rules/limits/decision.ts";
import { reportQuota } from "../../rules/limits/quota-report.ts";
import { ApiError, methodNotAllowed } from "../errors.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { limitedKeyOf } from "../limiter/object-call.ts";
import { allowsMatch, preconditionsOf } from "../preconditions.ts";

const NO_TAG = "The quota has no entity tag. Repeat the request without If-Match.";
const NO_LIMITER =
  "The limiter of this API key does not respond. Repeat the request after the time in Retry-After.";

/** Routes `getQuota` (docs/api.md, Quota), which must not be counted: it succeeds during a ban. */
export function quotaRoute(limiter: Limiter) {
  const routes = new Hono<AppEnv>().get("/", async (c) => {
    const apiKey = c.get("apiKey");
    const key = limitedKeyOf(apiKey);
    const quota = await limiter.look(key, {
      objects: c.env.RATE_LIMITER,
      requestId: c.get("requestId"),
      waitUntil: (promise) => c.executionCtx.waitUntil(promise),
    });
    c.set("quota", quota ?? closedQuota(key, 1_000, Date.now()));
    if (quota === null) {
      c.set("decidedBy", "nobody");
      throw new ApiError("service_unavailable", NO_LIMITER, { "Retry-After": "1" });
    }
    const isAllowed = allowsMatch(preconditionsOf(c.req.raw.headers), null);
    if (!isAllowed) throw new ApiError("precondition_failed", NO_TAG);
    const { id: keyId, plan, expiresAt } = apiKey;
    const body = { keyId, plan, expiresAt, ...reportQuota(quota) };
    return Response.json(body, { headers: { "Cache-Control": "no-store" } });
  });
  return routes.all("/", methodNotAllowed("GET, HEAD"));
}
