import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import type { AddressBudget } from "../limiter/memory-limiter.ts";
import { clientAddress } from "./client-address.ts";
import { quotaHeaders } from "../limit-rules/headers.ts";

/**
 * Sets the rate-limit headers of every response, including errors (docs/limits.md, Headers). If no
 * limiter decided on the request, the headers show the budget of the client's address, and the
 * request does not count against this budget.
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
