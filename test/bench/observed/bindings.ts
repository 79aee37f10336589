import type { Decision, Quota, QuotaPolicy } from "../../../src/rate-limit/decision.ts";
import type { RateLimiter } from "../../../src/rate-limit/durable-object.ts";
import { ObservedDatabase } from "./database.ts";
import type { Observer } from "./observer.ts";

/** The service's environment with every use of a binding shown to `observer`. */
export function observedBindings(env: Cloudflare.Env, observer: Observer): Cloudflare.Env {
  return {
    ...env,
    DB: new ObservedDatabase(env.DB, observer) as unknown as D1Database,
    RATE_LIMITER: observedObjects(env.RATE_LIMITER, observer),
  };
}

function observedObjects(
  objects: DurableObjectNamespace<RateLimiter>,
  observer: Observer,
): DurableObjectNamespace<RateLimiter> {
  const getByName = (name: string) => {
    const stub = objects.getByName(name);
    return {
      async admit(policy: QuotaPolicy, refusedAgesMs: readonly number[]): Promise<Decision> {
        await observer.beforeObjectCall();
        return stub.admit(policy, refusedAgesMs);
      },
      async peek(policy: QuotaPolicy): Promise<Quota> {
        await observer.beforeObjectCall();
        return stub.peek(policy);
      },
    };
  };
  return { getByName } as unknown as DurableObjectNamespace<RateLimiter>;
}
