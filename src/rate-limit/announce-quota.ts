import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import { quotaHeaders } from "./headers.ts";
import { addressSubject } from "./limiter.ts";

/**
 * Puts the rate-limit headers on every answer, errors included. An answer given before the key is
 * known shows the figures of the client's address and counts nothing (contract, section 4).
 */
export const announceQuota = createMiddleware<AppEnv>(
  async function announceQuotaMiddleware(c, next) {
    await next();
    const quota =
      c.get("quota") ?? (await c.get("limiter").peek(addressSubject(c.get("address")())));
    c.set("quota", quota);
    const { headers } = c.res;
    for (const [name, value] of Object.entries(quotaHeaders(quota))) headers.set(name, value);
  },
);
