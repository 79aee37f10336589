import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import type { AddressBudget } from "../rate-limit/address-budget.ts";
import { clientAddress } from "./client-address.ts";
import { quotaHeaders } from "../limits/headers.ts";

/**
 * Sets the rate-limit headers of every answer, errors included (docs/limits.md, Headers). Without
 * a decision on the request they show the budget of the client's address, which is not charged.
 */
export function announceQuota(addresses: AddressBudget) {
  return createMiddleware<AppEnv>(async function announceQuotaMiddleware(c, next) {
    await next();
    const quota = c.get("quota") ?? addresses.peek(clientAddress(c.req.raw));
    c.set("quota", quota);
    const { headers } = c.res;
    for (const [name, value] of Object.entries(quotaHeaders(quota))) headers.set(name, value);
  });
}
