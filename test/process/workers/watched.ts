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

/** The service with other sizes of lists. `/log` responds with the lines that it has logged. */
export default {
  fetch: (request, bindings, context) =>
    new URL(request.url).pathname === "/log"
      ? Response.json(log)
      : app.fetch(request, bindings, context),
} satisfies ExportedHandler<Cloudflare.Env>;
