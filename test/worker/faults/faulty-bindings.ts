import { env } from "cloudflare:workers";
import { FaultScript } from "./fault-script.ts";

/**
 * Real databases with injected faults. `script` determines the outcome of each database call; a
 * batch of statements is one call.
 */
export interface FaultyDatabases {
  readonly bindings: Partial<Pick<Cloudflare.Env, "ORDERS" | "KEYS">>;
  readonly script: FaultScript;
  /** The SQL of all statements that the service sent, including failed ones. */
  readonly statements: string[];
}

/**
 * Injects faults between the service and its real databases. `names` are the databases with faults;
 * by default both.
 */
export function faultyDatabases(...names: readonly ("ORDERS" | "KEYS")[]): FaultyDatabases {
  const script = new FaultScript();
  const statements: string[] = [];
  const original = new WeakMap<object, D1PreparedStatement>();
  const sqlOf = new WeakMap<object, string>();

  const wrapStatement = (real: D1PreparedStatement, sql: string): D1PreparedStatement => {
    const execute = (method: "first" | "all" | "raw" | "run") => (argument?: unknown) => {
      statements.push(sql);
      return script.run(() =>
        Reflect.apply(real[method], real, [argument].slice(0, argument === undefined ? 0 : 1)),
      );
    };
    const wrapped = {
      bind: (...values: unknown[]) => wrapStatement(real.bind(...values), sql),
      first: execute("first"),
      all: execute("all"),
      raw: execute("raw"),
      run: execute("run"),
    } as D1PreparedStatement;
    original.set(wrapped, real);
    sqlOf.set(wrapped, sql);
    return wrapped;
  };
  const wrap = (real: Pick<D1Database, "prepare" | "batch">) => ({
    prepare: (sql: string) => wrapStatement(real.prepare(sql), sql),
    batch: (batched: D1PreparedStatement[]) => {
      statements.push(...batched.map((statement) => sqlOf.get(statement)!));
      return script.run(() => real.batch(batched.map((statement) => original.get(statement)!)));
    },
  });
  const wrapDatabase = (real: D1Database) => {
    const withSession = (constraint: D1SessionConstraint) => wrap(real.withSession(constraint));
    return { ...wrap(real), withSession } as unknown as D1Database;
  };
  const faulty = names.length === 0 ? (["ORDERS", "KEYS"] as const) : names;
  const bindings = Object.fromEntries(faulty.map((name) => [name, wrapDatabase(env[name])]));
  return { bindings, script, statements };
}

/**
 * Real Durable Objects with injected faults. `script` determines the outcome of each call to them.
 */
export interface FaultyLimiters {
  readonly limiters: Cloudflare.Env["RATE_LIMITER"];
  readonly script: FaultScript;
  /** Returns the number of stubs that the service has created. */
  stubs(): number;
}

/** Injects faults between the service and its real Durable Objects. */
export function faultyLimiters(): FaultyLimiters {
  const script = new FaultScript();
  let stubs = 0;
  const limiters = {
    getByName: (name: string) => {
      stubs += 1;
      const stub = env.RATE_LIMITER.getByName(name);
      return {
        admit: (...args: Parameters<typeof stub.admit>) =>
          script.run(async () => stub.admit(...args)),
        ping: () => script.run(async () => stub.ping()),
      };
    },
  };
  return {
    limiters: limiters as unknown as Cloudflare.Env["RATE_LIMITER"],
    script,
    stubs: () => stubs,
  };
}
