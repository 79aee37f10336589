import { type Context, Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import { DatabaseQueries } from "../db/availability.ts";
import { HealthCheck, type Part, PROBE_TIMEOUT_MS } from "../health.ts";
import { logEvent } from "../log.ts";

/** The name of the Durable Object that health checks call. It limits no key. */
const PROBED_OBJECT = "health";

/**
 * Routes `GET /healthz` (docs/api.md, Health). The request needs no key, counts against no limit,
 * and does not appear in the request log or the metrics. Anybody can read the response, so the
 * reasons for a failure are only in the log.
 */
export function healthRoute() {
  const health = new HealthCheck();
  // Separate from the queries of other requests. So `/healthz` queries a database that other
  // requests do not query for a second, and never takes the place of a probe by these requests.
  const orders = new DatabaseQueries("orders", PROBE_TIMEOUT_MS);
  const keys = new DatabaseQueries("keys", PROBE_TIMEOUT_MS);
  // The queries read tables, so that a database without tables counts as unavailable.
  const probes: Record<Part, (env: Cloudflare.Env) => Promise<unknown>> = {
    orders: ({ ORDERS }) => orders.run(() => ORDERS.prepare("SELECT 1 FROM order_list").first()),
    keys: ({ KEYS }) => keys.run(() => KEYS.prepare("SELECT 1 FROM api_keys LIMIT 1").first()),
    limiter: ({ RATE_LIMITER }) => RATE_LIMITER.getByName(PROBED_OBJECT).ping(),
  };
  return new Hono<AppEnv>().get("/", async (c) => {
    const parts = await health.check({
      probe: (part) => probes[part](c.env),
      failed: (part, error) => logProbe(c, part, error),
      waitUntil: (promise) => c.executionCtx.waitUntil(promise),
    });
    const isHealthy = Object.values(parts).every((state) => state === "ok");
    return Response.json(parts, {
      status: isHealthy ? 200 : 503,
      headers: { "Cache-Control": "no-store" },
    });
  });
}

function logProbe(c: Context<AppEnv>, part: Part, error: unknown): void {
  // Log the cause of a database error, because it contains the reason that the operator needs.
  const { cause = error } = Object(error) as { cause?: unknown };
  logEvent({ event: "health_probe_failed", requestId: c.get("requestId"), part, error: cause });
}
