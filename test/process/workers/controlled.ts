import { env } from "cloudflare:workers";
import { parseConfig } from "../../../src/rules/config.ts";
import { createApp } from "../../../src/worker/app.ts";

export { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";

/** The sizes of lists that the var `SIZES` replaces, as JSON. */
const { SIZES = "{}" } = env as { SIZES?: string };
const app = createApp(parseConfig(env), JSON.parse(SIZES));

const log: unknown[] = [];
for (const level of ["log", "info", "warn", "error"] as const) {
  console[level] = (...line) => void log.push(line);
}

const systemNow = Date.now;
let aheadMs = 0;
// The limiter's Durable Objects run in the same isolate, so this also replaces their clock.
Date.now = () => systemNow() + aheadMs;

/**
 * The service with other sizes of lists. `/log` responds with the lines that it has logged, and
 * `/clock?ms=N` moves its clock N milliseconds forward.
 */
export default {
  fetch(request, bindings, context) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/log") return Response.json(log);
    if (pathname !== "/clock") return app.fetch(request, bindings, context);
    aheadMs += Number(searchParams.get("ms"));
    return new Response();
  },
} satisfies ExportedHandler<Cloudflare.Env>;
