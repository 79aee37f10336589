import { type Context, Hono } from "hono";
import { apiKeys } from "../../schema/keys.ts";
import { orderList } from "../../schema/orders.ts";
import type { AppEnv } from "../app-env.ts";
import { DatabaseQueries } from "../db/availability.ts";
import { BatchedCalls } from "../batched-calls.ts";
import { db, Statement } from "../db/statement.ts";
import { isWithin, withDeadline } from "../deadline.ts";
import { methodNotAllowed } from "../errors.ts";
import { logEvent } from "../log.ts";

/** The timeout of a probe: shorter than the timeouts of common monitors. */
const PROBE_TIMEOUT_MS = 3_000;

/** An isolate reuses the result of a probe for this long. */
const REMEMBERED_MS = 5_000;

// Queries read a table, so that a database without tables counts as unavailable.
const ANY_LIST = Statement.of(() => db.select({ id: orderList.id }).from(orderList));
const ANY_KEY = Statement.of(() => db.select({ id: apiKeys.id }).from(apiKeys).limit(1));

type Health = Readonly<Record<"orders" | "keys" | "limiter", "ok" | "unavailable">>;

const UNKNOWN: Health = { orders: "unavailable", keys: "unavailable", limiter: "unavailable" };

/**
 * Routes `GET /healthz` (docs/api.md, Health). The request needs no key, counts against no limit,
 * and does not appear in the request log or the metrics. Anybody can read the response, so the
 * reasons for a failure are only in the log. The requests of an isolate share probes.
 */
export function healthRoute() {
  // Not the instances of other routes: a probe that succeeds must not end an outage that they log.
  const orders = new DatabaseQueries("orders", PROBE_TIMEOUT_MS);
  const keys = new DatabaseQueries("keys", PROBE_TIMEOUT_MS);
  const probes = new BatchedCalls<null, Health>({ concurrency: 1, timeoutMs: PROBE_TIMEOUT_MS });
  let last = { health: UNKNOWN, fromMs: -Infinity };

  const probe = async (c: Context<AppEnv>): Promise<Health> => {
    const { ORDERS, KEYS, RATE_LIMITER } = c.env;
    const states = await Promise.all([
      stateOf(c, "orders", () => orders.run(() => ANY_LIST.all(ORDERS))),
      stateOf(c, "keys", () => keys.run(() => ANY_KEY.all(KEYS))),
      stateOf(c, "limiter", () =>
        // This Durable Object limits no key.
        withDeadline(RATE_LIMITER.getByName("health").ping(), PROBE_TIMEOUT_MS),
      ),
    ]);
    return { orders: states[0], keys: states[1], limiter: states[2] };
  };

  const routes = new Hono<AppEnv>().get("/", async (c) => {
    const waitUntil = (promise: Promise<unknown>) => c.executionCtx.waitUntil(promise);
    const call = async (all: readonly null[]) => {
      if (!isWithin(REMEMBERED_MS, last.fromMs)) {
        last = { health: await probe(c), fromMs: Date.now() };
      }
      return all.map(() => last.health);
    };
    // `valueOf` rejects only if the platform ended the request that ran the shared probe.
    const health = await probes.valueOf(null, call, waitUntil).catch(() => UNKNOWN);
    const isHealthy = Object.values(health).every((state) => state === "ok");
    return Response.json(health, {
      status: isHealthy ? 200 : 503,
      headers: { "Cache-Control": "no-store" },
    });
  });
  return routes.all("/", methodNotAllowed("GET, HEAD"));
}

async function stateOf(
  c: Context<AppEnv>,
  part: keyof Health,
  call: () => Promise<unknown>,
): Promise<"ok" | "unavailable"> {
  try {
    await call();
    return "ok";
  } catch (error) {
    logEvent({ event: "health_probe_failed", requestId: c.get("requestId"), part, error });
    return "unavailable";
  }
}
