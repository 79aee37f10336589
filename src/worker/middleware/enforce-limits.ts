import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import { type ApiFailure, rateLimitError, writeError } from "../errors.ts";
import { closedQuota, type Decision } from "../../rules/limits/decision.ts";
import { describedWindow } from "../../rules/limits/headers.ts";
import type { Limiter } from "../limiter/limiter.ts";

const OVERLOAD_PAUSE_MS = 1_000;

const OVERLOADED: ApiFailure = {
  code: "service_unavailable",
  message:
    "This API key sends more requests at once than can be counted. This one was not counted and did nothing. Repeat it after the time in Retry-After, and send fewer at once.",
  headers: { "Retry-After": String(OVERLOAD_PAUSE_MS / 1_000) },
};

/** Applies `limitRequest` to each request; only an admitted one reaches the next handler. */
export function enforceLimits(limiter: Limiter) {
  return createMiddleware<AppEnv>(async function enforceLimitsMiddleware(c, next) {
    return (await limitRequest(c, limiter)) ?? next();
  });
}

/**
 * Counts an authenticated request against the limits of its key, and sets the variables `decidedBy`,
 * `lastCancellation` and `quota`.
 *
 * @returns `null` if the request is admitted; 429 if a window is full or the key is banned; 503 if
 *   the key's limiter is overloaded.
 */
export async function limitRequest(c: Context<AppEnv>, limiter: Limiter): Promise<Response | null> {
  const key = c.get("limitedKey");
  const { decision, decidedBy } = await limiter.admit(key, {
    objects: c.env.RATE_LIMITER,
    requestId: c.get("requestId"),
    waitUntil: (promise) => c.executionCtx.waitUntil(promise),
  });
  c.set("decidedBy", decidedBy);
  // `Infinity` if unknown: only the key's Durable Object knows cancellations on other isolates.
  c.set("lastCancellation", decidedBy === "object" ? (decision?.lastCancellation ?? 0) : Infinity);
  c.set("quota", decision ?? closedQuota(key, OVERLOAD_PAUSE_MS, Date.now()));
  if (decision === null) return writeError(c, OVERLOADED);
  return decision.admitted
    ? null
    : writeError(c, rateLimitError(decision, refusalReason(decision)));
}

function refusalReason(decision: Decision): string {
  if (decision.banned) {
    return "This API key is banned for a while, because it kept sending requests after it was told to wait.";
  }
  const { name, limit } = describedWindow(decision);
  return `This API key has used its ${limit} requests per ${name}.`;
}
