import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../app-env.ts";
import { CircuitBreaker } from "../circuit-breaker.ts";
import type { Config } from "../config.ts";
import { withDeadline } from "../deadline.ts";
import { DatabaseUnavailableError } from "./availability.ts";

const NAME = "database";

/** Methods of a database, a session or a statement that return another one. */
const DERIVING = new Set<PropertyKey>(["prepare", "bind", "withSession"]);

/** Methods that ask the database. */
const ASKING = new Set<PropertyKey>(["first", "all", "raw", "run", "batch", "exec"]);

/** The statements behind the guarded ones. */
const statements = new WeakMap<object, object>();

/**
 * Spares requests from waiting, one after another, for a database that does not answer. After a
 * query that has timed out, queries fail at once for a second, and then one probes.
 */
export function guardDatabase({ databaseTimeoutMs }: Config): MiddlewareHandler<AppEnv> {
  const breaker = new CircuitBreaker({ size: 1, probeMs: databaseTimeoutMs });
  return function guardDatabaseMiddleware(c, next) {
    c.env = { ...c.env, DB: guarded(c.env.DB, (query) => ask(breaker, databaseTimeoutMs, query)) };
    return next();
  };
}

async function ask(
  breaker: CircuitBreaker,
  timeoutMs: number,
  query: () => Promise<unknown>,
): Promise<unknown> {
  if (!breaker.allows(NAME, Date.now())) {
    const cause = new Error("Not asked, because a query has just timed out.");
    throw new DatabaseUnavailableError(cause);
  }
  const answer = query();
  // An error is an answer too.
  const answered = answer.then(
    () => breaker.succeeded(NAME),
    () => breaker.succeeded(NAME),
  );
  await withDeadline(answered, timeoutMs).catch((error: unknown) => {
    breaker.failed(NAME, Date.now());
    throw error;
  });
  return answer;
}

/** The same object with every query sent through `run`. */
function guarded<T extends object>(
  target: T,
  run: (query: () => Promise<unknown>) => Promise<unknown>,
): T {
  const proxy = new Proxy(target, {
    get(_, name) {
      const method: unknown = Reflect.get(target, name);
      if (typeof method !== "function") return method;
      return (...args: unknown[]): unknown => {
        const call = () => Reflect.apply(method, target, args.map(unguarded));
        if (ASKING.has(name)) return run(call);
        return DERIVING.has(name) ? guarded(call(), run) : call();
      };
    },
  });
  statements.set(proxy, target);
  return proxy;
}

function unguarded(argument: unknown): unknown {
  return Array.isArray(argument)
    ? argument.map((statement: object) => statements.get(statement) ?? statement)
    : argument;
}
