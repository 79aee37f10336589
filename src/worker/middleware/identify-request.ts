import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";

/** A caller's id is copied into log lines and headers, so it has only harmless characters. */
const ACCEPTED_ID = /^[\w\-=]{1,255}$/;

/**
 * Gives each request an id, the caller's `X-Request-Id` if it is acceptable, and repeats it on the
 * answer. Hono's own middleware sets the header beforehand, which costs another `Headers`.
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
