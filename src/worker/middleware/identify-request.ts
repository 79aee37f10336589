import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";

/**
 * The `X-Request-Id` values to accept from callers. Only harmless characters, because the id is
 * copied into log lines and headers.
 */
const ACCEPTED_ID = /^[\w\-=]{1,255}$/;

/**
 * Gives each request an id and sets it as `X-Request-Id` of the response. The id is the caller's
 * `X-Request-Id` if it is acceptable, otherwise a new UUID. Hono's `requestId` middleware would set
 * the header before the handler runs, which allocates another `Headers`.
 */
export const identifyRequest = createMiddleware<AppEnv>(
  async function identifyRequestMiddleware(c, next) {
    const sent = c.req.header("X-Request-Id") ?? "";
    const requestId = ACCEPTED_ID.test(sent) ? sent : crypto.randomUUID();
    c.set("requestId", requestId);
    await next();
    c.res.headers.set("X-Request-Id", requestId);
  },
);
