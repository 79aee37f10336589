import { createMiddleware } from "hono/factory";
import QuickLRU from "quick-lru";
import type { AppEnv } from "../app-env.ts";
import { CircuitBreaker } from "../circuit-breaker.ts";
import type { Config } from "../config.ts";
import { Outage } from "../outage.ts";
import { DurableLimiter } from "../rate-limit/durable-limiter.ts";
import { FallbackLimiter } from "../rate-limit/fallback-limiter.ts";
import { RequestLimiter } from "../rate-limit/request-limiter.ts";
import { type Refusals, RememberingLimiter } from "../rate-limit/remembering-limiter.ts";

/**
 * Gives each request a limiter. The requests of an isolate share the fallback limiter. They also
 * share the remembered refusals and the circuit breaker, which save calls to Durable Objects.
 */
export function provideLimiter(config: Config) {
  const refusals: Refusals = new QuickLRU({ maxSize: config.refusalsSize });
  const { limiterTimeoutMs, fallbackSize } = config;
  const breaker = new CircuitBreaker({ size: fallbackSize, probeMs: limiterTimeoutMs });
  const fallback = {
    limiter: new FallbackLimiter(config.bans, fallbackSize),
    outage: new Outage({ began: "insurance_limiter_on", ended: "insurance_limiter_off" }),
    overload: new Outage({ began: "limiter_overloaded", ended: "limiter_not_overloaded" }),
  };
  return createMiddleware<AppEnv>(function provideLimiterMiddleware(c, next) {
    const durable = new DurableLimiter(c.env.RATE_LIMITER, limiterTimeoutMs, breaker);
    const remembering = new RememberingLimiter(durable, refusals);
    c.set("limiter", new RequestLimiter(remembering, fallback, c.get("requestId")));
    return next();
  });
}
