/** Methods that return a part of a binding. All others are calls to it. */
const PARTS: readonly unknown[] = ["prepare", "bind", "withSession", "getByName"];

/** Returns a binding, or a part of one, whose calls `run` makes. A batch of statements is one call. */
export function wrapBinding<T extends object>(
  real: T,
  run: <R>(call: () => Promise<R>) => Promise<R>,
): T {
  return new Proxy(real, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        const call = () => Reflect.apply(member, target, args);
        return PARTS.includes(name) ? wrapBinding(call(), run) : run(async () => call());
      };
    },
  });
}
