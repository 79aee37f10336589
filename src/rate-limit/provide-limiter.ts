import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import type { Config } from "../config.ts";
import { countedAddress } from "./client-address.ts";
import { DurableLimiter } from "./durable-limiter.ts";
import { InsuranceLimiter } from "./insurance-limiter.ts";
import { InsuredLimiter } from "./insured-limiter.ts";

/** Gives the request its limiter, and the address that failed authentication is counted against. */
export function provideLimiter(config: Config) {
  const insurance = new InsuranceLimiter(config.bans, config.insuranceSize);
  return createMiddleware<AppEnv>(async function provideLimiterMiddleware(c, next) {
    const durable = new DurableLimiter(c.env.RATE_LIMITER, config.limiterTimeoutMs);
    c.set("limiter", new InsuredLimiter(durable, insurance));
    c.set("address", countedAddress(c.req.header("CF-Connecting-IP")));
    await next();
  });
}
