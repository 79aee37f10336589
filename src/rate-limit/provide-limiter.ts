import { createMiddleware } from "hono/factory";
import QuickLRU from "quick-lru";
import type { AppEnv } from "../app-env.ts";
import type { Config } from "../config.ts";
import { Outage } from "../outage.ts";
import { DurableLimiter } from "./durable-limiter.ts";
import { InsuranceLimiter } from "./insurance-limiter.ts";
import { InsuredLimiter } from "./insured-limiter.ts";
import { type Refusals, RememberingLimiter } from "./remembering-limiter.ts";

/** Gives the request its limiter. */
export function provideLimiter(config: Config) {
  const refusals: Refusals = new QuickLRU({ maxSize: config.refusalsSize });
  const insurance = new InsuranceLimiter(config.bans, config.insuranceSize);
  const outage = new Outage({ began: "insurance_limiter_on", ended: "insurance_limiter_off" });
  return createMiddleware<AppEnv>(function provideLimiterMiddleware(c, next) {
    const durable = new DurableLimiter(c.env.RATE_LIMITER, config.limiterTimeoutMs);
    const remembering = new RememberingLimiter(durable, refusals);
    c.set("limiter", new InsuredLimiter(remembering, insurance, outage, c.get("requestId")));
    return next();
  });
}
