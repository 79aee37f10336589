import { type Context, Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import type { DatabaseName, DatabaseQueries } from "../db/availability.ts";
import { HealthCheck, type Part } from "../health.ts";
import { logEvent } from "../log.ts";

/** Names the one object that the probe calls. It limits no key. */
const PROBED_OBJECT = "health";

type Databases = Readonly<Record<DatabaseName, DatabaseQueries>>;

/**
 * Routes `GET /healthz` (docs/api.md, Health): open, not counted and not recorded. The answer gives no
 * reasons, because anybody can read it. The log has them.
 */
export function healthRoute(databases: Databases) {
  const health = new HealthCheck();
  return new Hono<AppEnv>().get("/", async (c) => {
    const parts = await health.check({
      probe: (part) => probe(part, c.env, databases),
      failed: (part, error) => logProbe(c, part, error),
      waitUntil: (promise) => c.executionCtx.waitUntil(promise),
    });
    const isHealthy = Object.values(parts).every((state) => state === "ok");
    return Response.json(parts, {
      status: isHealthy ? 200 : 503,
      headers: { "Cache-Control": "no-store", ...confirmVersion(c) },
    });
  });
}

/** Tells a deployment whether the version that it asks for answers. Tells nobody which one does. */
function confirmVersion(c: Context<AppEnv>): Record<string, string> {
  const asked = c.req.query("version");
  return asked !== undefined && asked === c.env.VERSION.id ? { "X-Version": asked } : {};
}

/** Each query reads a table of its database, because an empty database must not pass. */
async function probe(part: Part, env: Cloudflare.Env, databases: Databases): Promise<void> {
  switch (part) {
    case "orders":
      await databases.orders.run(() => env.ORDERS.prepare("SELECT 1 FROM order_list").first());
      break;
    case "keys":
      await databases.keys.run(() => env.KEYS.prepare("SELECT 1 FROM api_keys LIMIT 1").first());
      break;
    case "limiter":
      await env.RATE_LIMITER.getByName(PROBED_OBJECT).ping();
  }
}

function logProbe(c: Context<AppEnv>, part: Part, error: unknown): void {
  // The error of a database names its cause, which the operator needs.
  const { cause = error } = Object(error) as { cause?: unknown };
  logEvent({ event: "health_probe_failed", requestId: c.get("requestId"), part, error: cause });
}
