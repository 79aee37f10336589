import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import { type ApiFailure, rateLimitError, writeError } from "../errors.ts";
import { closedQuota, type Decision } from "../../rules/limits/decision.ts";
import { describedWindow } from "../../rules/limits/headers.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { limitedKeyOf } from "../limiter/object-call.ts";

const OVERLOAD_PAUSE_MS = 1_000;

const OVERLOADED: ApiFailure = {
  code: "service_unavailable",
  message:
    "This API key sends more requests at once than can be counted. This one was not counted and did nothing. Repeat it after the time in Retry-After, and send fewer at once.",
  headers: { "Retry-After": String(OVERLOAD_PAUSE_MS / 1_000) },
};

/**
 * How a handler depends on the limiter: it runs `alongside`, while the limiter decides, or
 * `uncounted`, without a decision.
 */
export type LimitException = "alongside" | "uncounted";

/**
 * Counts each authenticated request against the limits of its key, and sets the variables
 * `admission`, `decidedBy` and `quota`. Answers 429 if a window is full or the key is banned, and 503
 * if the key's limiter is overloaded. Only an admitted request reaches its handler.
 *
 * @param readsAt exceptions for `GET` and `HEAD`, by path. An `alongside` handler must not reveal or
 *   change anything before `admission` resolves. If the request is refused, its response is replaced.
 */
export function enforceLimits(limiter: Limiter, readsAt: ReadonlyMap<string, LimitException>) {
  return createMiddleware<AppEnv>(async function enforceLimitsMiddleware(c, next) {
    const isRead = ["GET", "HEAD"].includes(c.req.method);
    const exception = isRead ? readsAt.get(c.req.path) : undefined;
    if (exception === "uncounted") return next();
    const key = limitedKeyOf(c.get("apiKey"));
    // A handler's early work is wasted if the limiter is certain to refuse the request.
    const isAlongside = exception === "alongside" && !limiter.isRefusing(key);
    const admission = limiter.admit(key, {
      cancels: c.req.method === "DELETE",
      objects: c.env.RATE_LIMITER,
      requestId: c.get("requestId"),
      waitUntil: (promise) => c.executionCtx.waitUntil(promise),
    });
    c.set("admission", admission);
    if (isAlongside) await next();
    const { decision, decidedBy } = await admission;
    c.set("decidedBy", decidedBy);
    c.set("quota", decision ?? closedQuota(key, OVERLOAD_PAUSE_MS, Date.now()));
    if (decision?.admitted) return isAlongside ? undefined : next();
    const failure =
      decision === null ? OVERLOADED : rateLimitError(decision, refusalReason(decision));
    // Without this, Hono would copy the headers of the handler's response.
    c.res = undefined;
    c.res = writeError(c, failure);
  });
}

function refusalReason(decision: Decision): string {
  if (decision.banned) {
    return "This API key is banned for a while, because it kept sending requests after it was told to wait.";
  }
  const { name, limit } = describedWindow(decision);
  return `This API key has used its ${limit} requests per ${name}.`;
}
