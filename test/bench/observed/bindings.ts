import type { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";
import { ObservedDatabase } from "./database.ts";
import type { Observer } from "./observer.ts";

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
