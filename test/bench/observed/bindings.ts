import type { RateLimiter } from "../../../src/worker/limiter/durable-object.ts";

export interface Observer {
  beforeObjectCall(): Promise<void> | void;
  /** A batch of statements is one query. */
  beforeQuery(database: "ORDERS" | "KEYS"): Promise<void> | void;
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

interface DatabaseObserver extends Pick<Observer, "afterStatement"> {
  beforeQuery(): Promise<void> | void;
}

/** A D1 database that calls an observer. Uses only D1's `all`, which always returns metadata. */
class ObservedDatabase {
  readonly #source: Pick<D1Database, "prepare" | "batch">;
  readonly #observer: DatabaseObserver;

  constructor(source: D1Database, observer: DatabaseObserver) {
    this.#source = source;
    this.#observer = observer;
  }

  /** Queries in a session are observed like all others. */
  withSession(): this {
    return this;
  }

  prepare(query: string): ObservedStatement {
    return new ObservedStatement(this.#source.prepare(query), this.#observer);
  }

  async batch(statements: readonly ObservedStatement[]): Promise<D1Result[]> {
    await this.#observer.beforeQuery();
    const results = await this.#source.batch(statements.map(({ statement }) => statement));
    for (const { meta } of results) this.#observer.afterStatement(meta);
    return results;
  }
}

class ObservedStatement {
  readonly statement: D1PreparedStatement;
  readonly #observer: DatabaseObserver;

  constructor(statement: D1PreparedStatement, observer: DatabaseObserver) {
    this.statement = statement;
    this.#observer = observer;
  }

  bind(...values: unknown[]): ObservedStatement {
    return new ObservedStatement(this.statement.bind(...values), this.#observer);
  }

  async all(): Promise<D1Result<Record<string, unknown>>> {
    await this.#observer.beforeQuery();
    const result = await this.statement.all();
    this.#observer.afterStatement(result.meta);
    return result;
  }

  run(): Promise<D1Result> {
    return this.all();
  }

  async first(): Promise<Record<string, unknown> | null> {
    const { results } = await this.all();
    return results[0] ?? null;
  }

  async raw(): Promise<unknown[][]> {
    const { results } = await this.all();
    return results.map((row) => Object.values(row));
  }
}
