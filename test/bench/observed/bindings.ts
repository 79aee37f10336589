import type { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import { ObservedDatabase } from "./database.ts";

/** Callbacks for each use of the service's bindings. */
export interface Observer {
  /** Called before each call of a Durable Object. */
  beforeObjectCall(): Promise<void> | void;
  /** Called before each query of a database. A batch of statements is one query. */
  beforeQuery(database: "ORDERS" | "KEYS"): Promise<void> | void;
  /** Called after each SQL statement. `meta` is what D1 reports about the statement. */
  afterStatement(meta: D1Meta): void;
}

/** Wraps the bindings of the service so that each use of a binding calls `observer`. */
export function observedBindings(env: Cloudflare.Env, observer: Observer): Cloudflare.Env {
  const observedDatabase = (name: "ORDERS" | "KEYS") =>
    new ObservedDatabase(env[name], {
      beforeQuery: () => observer.beforeQuery(name),
      afterStatement: (meta) => observer.afterStatement(meta),
    }) as unknown as D1Database;
  return {
    ...env,
    ORDERS: observedDatabase("ORDERS"),
    KEYS: observedDatabase("KEYS"),
    RATE_LIMITER: observedObjects(env.RATE_LIMITER, observer),
  };
}

function observedObjects(
  objects: DurableObjectNamespace<RateLimiter>,
  observer: Observer,
): DurableObjectNamespace<RateLimiter> {
  const getByName = (name: string) => {
    const stub = objects.getByName(name) as unknown as Record<string, Method>;
    return new Proxy(stub, {
      get: (target, method) => {
        if (typeof method !== "string") return undefined;
        return async (...args: unknown[]) => {
          await observer.beforeObjectCall();
          return target[method]?.(...args);
        };
      },
    });
  };
  return { getByName } as unknown as DurableObjectNamespace<RateLimiter>;
}

type Method = (...args: unknown[]) => Promise<unknown>;
