import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";

/** Of an id that a caller chose: it goes into log lines and headers as it is. */
const CALLERS_ID = /^[\w\-=]{1,255}$/;

/**
 * Gives each request the id that its `X-Request-Id` names, or a new one, and sets that header on the
 * answer: once there is one, because before, as Hono's own middleware does, it costs another `Headers`.
 */
export const identifyRequest = createMiddleware<AppEnv>(
  async function identifyRequestMiddleware(c, next) {
    const sent = c.req.header("X-Request-Id") ?? "";
    const requestId = CALLERS_ID.test(sent) ? sent : crypto.randomUUID();
    c.set("requestId", requestId);
    await next();
    c.res.headers.set("X-Request-Id", requestId);
  },
);
