type Namespace = Cloudflare.Env["RATE_LIMITER"];
type Method = (...args: unknown[]) => Promise<unknown>;

/** Makes a call to a binding. A batch of statements is one call. */
type Run = <T>(call: () => Promise<T>) => Promise<T>;

const CALLS: readonly unknown[] = ["all", "run", "batch"];
const PARTS: readonly unknown[] = ["prepare", "bind", "withSession"];

/** Returns a database, or a part of one, whose calls `run` makes. */
export function wrapDatabase<T extends object>(real: T, run: Run): T {
  return new Proxy(real, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        const call = () => Reflect.apply(member, target, args);
        if (CALLS.includes(name)) return run(call);
        return PARTS.includes(name) ? wrapDatabase(call(), run) : call();
      };
    },
  });
}

/** Returns the limiters of `real`, whose calls `run` makes. */
export function wrapLimiters(real: Pick<Namespace, "getByName">, run: Run): Namespace {
  const getByName = (...args: Parameters<Namespace["getByName"]>) => {
    const stub = real.getByName(...args) as unknown as Record<string, Method>;
    const get =
      (_: unknown, method: string) =>
      async (...values: unknown[]) =>
        run(() => stub[method]!(...values));
    return new Proxy({}, { get });
  };
  return { getByName } as unknown as Namespace;
}
