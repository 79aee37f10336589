import type { RateLimiter } from "../../src/worker/limiter/durable-object.ts";

export interface Observer {
  beforeObjectCall(): Promise<void> | void;
  /** Called before each query. A batch of statements is one query. */
  beforeQuery(database: "ORDERS" | "KEYS"): Promise<void> | void;
  afterStatement(meta: D1Meta): void;
}

export function observedBindings(env: Cloudflare.Env, observer: Observer): Cloudflare.Env {
  const getByName = (name: string) => {
    const stub = env.RATE_LIMITER.getByName(name) as unknown as Record<string, Method>;
    const get = (target: typeof stub, method: string | symbol) =>
      typeof method !== "string"
        ? undefined
        : async (...args: unknown[]) => {
            await observer.beforeObjectCall();
            return target[method]?.(...args);
          };
    return new Proxy(stub, { get });
  };
  return {
    ...env,
    ORDERS: observedDatabase(env, "ORDERS", observer),
    KEYS: observedDatabase(env, "KEYS", observer),
    RATE_LIMITER: { getByName } as unknown as DurableObjectNamespace<RateLimiter>,
  };
}

type Method = (...args: unknown[]) => Promise<unknown>;

/** Wraps a database and its sessions. Runs single statements with `all`, which returns metadata. */
function observedDatabase(
  env: Cloudflare.Env,
  name: "ORDERS" | "KEYS",
  observer: Observer,
): D1Database {
  const observedStatement = (statement: D1PreparedStatement): object => {
    const all = async () => {
      await observer.beforeQuery(name);
      const result = await statement.all();
      observer.afterStatement(result.meta);
      return result;
    };
    return {
      statement,
      bind: (...values: unknown[]) => observedStatement(statement.bind(...values)),
      all,
      run: all,
      first: async () => (await all()).results[0] ?? null,
      raw: async () => (await all()).results.map((row) => Object.values(row)),
    };
  };
  const database = {
    withSession: () => database as unknown,
    prepare: (query: string) => observedStatement(env[name].prepare(query)),
    batch: async (statements: readonly { readonly statement: D1PreparedStatement }[]) => {
      await observer.beforeQuery(name);
      const results = await env[name].batch(statements.map(({ statement }) => statement));
      for (const { meta } of results) observer.afterStatement(meta);
      return results;
    },
  };
  return database as unknown as D1Database;
}
