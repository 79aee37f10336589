import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import type { Config } from "../config.ts";
import { Limiter } from "../limiter/limiter.ts";

/** Gives each request the limiter that all requests of the isolate share. */
export function provideLimiter(config: Config) {
  const limiter = new Limiter(config);
  return createMiddleware<AppEnv>(function provideLimiterMiddleware(c, next) {
    c.set("limiter", limiter);
    return next();
  });
}
